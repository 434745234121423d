//! Starts the service of `parcels` on Apache Kafka: `parcels-service HOST:PORT`.

use kpipe_core::kafka::Kafka;
use kpipe_core::{Error, HandlerResult};
use parcels::{Ledger, Priced, RateError, Rates, parcels};

/// Stands in for an HTTP service.
struct Table;

impl Rates for Table {
    async fn rate(&self, country: &str) -> Result<u32, RateError> {
        let known = [("AT", 700), ("CH", 900), ("NZ", 2_000)];
        let rate = known.iter().find(|(name, _)| *name == country);
        rate.map(|(_, rate)| *rate)
            .ok_or_else(|| RateError(format!("nobody delivers to {country}")))
    }
}

/// Stands in for a database.
struct Printed;

impl Ledger for Printed {
    async fn store(&self, priced: Priced) -> HandlerResult {
        println!("{}: {} cents", priced.parcel, priced.cents);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let brokers = std::env::args().nth(1).unwrap_or_else(|| "localhost:9092".to_owned());
    let running = parcels(Table, Printed).start(Kafka::brokers(brokers)).await?;
    let stop = async {
        // Without a handler for it Ctrl-C ends the process at once, which loses nothing either.
        let _ = tokio::signal::ctrl_c().await;
    };
    println!("{}", running.until(stop).await?);
    Ok(())
}
