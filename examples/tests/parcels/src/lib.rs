//! Prices parcels: the handlers of a service, without a line about Kafka.
//!
//! The crate depends on `kpipe-core` without its feature `kafka`, so that it and its tests build in
//! seconds; `parcels-service` is the program that starts it.

use std::future::Future;
use std::sync::Arc;

use kpipe_core::{Consumer, HandlerResult, OnFailure, Record};
use serde::{Deserialize, Serialize};

/// A parcel, as it comes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// Where it goes to.
    pub country: String,
    /// What it weighs, in grams.
    pub grams: u32,
}

/// A parcel with its price, as it leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priced {
    /// Which parcel: the record's key.
    pub parcel: String,
    /// In cents.
    pub cents: u32,
}

/// What a kilogram to a country costs: an HTTP service in production.
pub trait Rates: Send + Sync + 'static {
    /// In cents; an error if nobody can say just now.
    fn rate(&self, country: &str) -> impl Future<Output = Result<u32, RateError>> + Send;
}

/// Where priced parcels go: a table in production.
pub trait Ledger: Send + Sync + 'static {
    /// Returns once the parcel is stored.
    fn store(&self, priced: Priced) -> impl Future<Output = HandlerResult> + Send;
}

/// Why there is no rate.
#[derive(Debug)]
pub struct RateError(pub String);

impl std::fmt::Display for RateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no rate: {}", self.0)
    }
}

impl std::error::Error for RateError {}

/// What the service does: used as it is by `main` and by the tests.
pub fn parcels(rates: impl Rates, ledger: impl Ledger) -> Consumer {
    let parts = Arc::new((rates, ledger));
    Consumer::new("parcel-pricing")
        .topic("parcels", move |record: Record| {
            let parts = parts.clone();
            async move {
                let (rates, ledger) = &*parts;
                price(rates, ledger, &record).await
            }
        })
        .max_in_flight(200)
        .on_failure(OnFailure::Hold)
}

async fn price(rates: &impl Rates, ledger: &impl Ledger, record: &Record) -> HandlerResult {
    let parcel: Parcel = serde_json::from_slice(record.value().unwrap_or_default())?;
    let rate = rates.rate(&parcel.country).await?;
    let parcel_id = std::str::from_utf8(record.key().unwrap_or_default())?.to_owned();
    let cents = u64::from(rate) * u64::from(parcel.grams) / 1_000;
    ledger.store(Priced { parcel: parcel_id, cents: u32::try_from(cents)? }).await
}
