//! The service's tests: no broker, no sleeping, and the definition that `main` starts.

use std::time::Duration;

use kpipe_core::{Consumer, HandlerResult};
use kpipe_test::{CapturingSink, Chaos, Crash, CrashRestartHarness, TestRecord, TestStream};
use parcels::{Ledger, Parcel, Priced, RateError, Rates, parcels};

/// A table in memory.
#[derive(Clone, Default)]
struct Table(CapturingSink<Priced>);

impl Ledger for Table {
    async fn store(&self, priced: Priced) -> HandlerResult {
        self.0.send(priced).await
    }
}

/// Rates that are known, are not, or take for ever.
struct Fixed;

impl Rates for Fixed {
    async fn rate(&self, country: &str) -> Result<u32, RateError> {
        match country {
            "CH" => Ok(900),
            "NZ" => {
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok(2_000)
            }
            "XX" => std::future::pending().await,
            other => Err(RateError(format!("nobody delivers to {other}"))),
        }
    }
}

fn parcel(id: &str, country: &str, grams: u32) -> TestRecord {
    TestRecord::key(id.to_owned()).json(&Parcel { country: country.to_owned(), grams })
}

fn priced(id: &str, cents: u32) -> Priced {
    Priced { parcel: id.to_owned(), cents }
}

#[tokio::test(start_paused = true)]
async fn parcels_are_priced_and_slow_rates_hold_up_nobody_else() {
    let table = Table::default();
    let mut stream = TestStream::new(parcels(Fixed, table.clone()));
    stream.send("parcels", parcel("far", "NZ", 500));
    stream.send("parcels", parcel("near", "CH", 2_000));
    stream.flush().await.assert_all_passed();
    table.0.assert_eq(&[priced("near", 1_800), priced("far", 1_000)]);
}

#[tokio::test]
async fn a_parcel_to_nowhere_is_held_and_says_why() {
    let table = Table::default();
    let mut stream = TestStream::new(parcels(Fixed, table.clone()));
    stream.send("parcels", parcel("lost", "AQ", 100));
    stream.send("parcels", parcel("near", "CH", 1_000));
    let run = stream.flush().await;
    assert_eq!(run.record("parcels", 0, 0).unwrap().errors, ["no rate: nobody delivers to AQ"]);
    assert_eq!(run.committed("parcels", 0), Some(0), "and is not lost");
    table.0.assert_eq(&[priced("near", 900)]);
}

#[tokio::test]
async fn a_rate_that_never_comes_ends_by_the_deadline() {
    let consumer = parcels(Fixed, Table::default()).attempt_deadline(Duration::from_secs(30));
    let mut stream = TestStream::new(consumer).patience(Duration::from_millis(20));
    stream.send("parcels", parcel("nowhere", "XX", 100));
    let run = stream.flush().await;
    assert!(run.record("parcels", 0, 0).unwrap().errors[0].contains("deadline"));
}

#[tokio::test]
async fn a_table_that_is_away_holds_the_parcel() {
    let table = Table(CapturingSink::new().failing(1, "the table is away"));
    let mut stream = TestStream::new(parcels(Fixed, table.clone()));
    stream.send("parcels", parcel("near", "CH", 1_000));
    let run = stream.flush().await;
    assert_eq!(run.record("parcels", 0, 0).unwrap().errors, ["the table is away"]);
    assert!(table.0.is_empty());
}

#[tokio::test]
async fn rebalances_cost_no_parcel() {
    let table = Table::default();
    let mut stream = TestStream::new(parcels(Fixed, table.clone())).partitions(3);
    for id in 0..100 {
        stream.send("parcels", parcel(&format!("parcel-{id}"), "CH", id));
    }
    stream.chaos_after(30, Chaos::HandBackAll);
    stream.chaos_after(60, Chaos::Expel);
    let run = stream.flush().await;
    run.assert_at_least_once();
    run.assert_in_order_per_key();
    run.assert_nothing_began_after_its_revoke();
    assert!(table.0.len() >= 100);
}

#[tokio::test]
async fn a_crash_costs_no_parcel() {
    fn service() -> Consumer {
        parcels(Fixed, Table::default())
    }
    for crash in [Crash::InHandler, Crash::BeforeAck, Crash::BeforeCommit, Crash::InRebalance] {
        let run = CrashRestartHarness::new(service)
            .records(100)
            .record(|index| parcel(&format!("parcel-{}", index % 9), "CH", 100))
            .crash_when(crash)
            .run()
            .await;
        run.assert_at_least_once();
        run.assert_exact_window();
    }
}
