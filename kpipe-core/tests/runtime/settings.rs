//! Bad settings are refused at the start, by name.

use kpipe_core::{Consumer, ErrorKind, Record};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer};

async fn refused(consumer: Consumer) -> (ErrorKind, String) {
    let error = consumer.start(Cluster::new()).await.expect_err("refused");
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn a_refusal_names_the_field_the_value_and_what_is_accepted() {
    let probe = Probe::default();
    let (kind, text) = refused(consumer(&probe).max_in_flight(0)).await;
    assert_eq!(kind, ErrorKind::Config);
    assert_eq!(text, "max_in_flight = 0: must be between 1 and 1,000,000");

    let (_, text) = refused(Consumer::new("g")).await;
    assert_eq!(text, "topics = []: at least one topic is needed");

    let twice = consumer(&probe).topic("t", |_: Record| async { Ok(()) });
    let (_, text) = refused(twice).await;
    assert_eq!(text, "topic = t: may be given only once");
}

#[test]
fn a_start_outside_a_runtime_is_an_error_and_no_panic() {
    let start = consumer(&Probe::default()).start(Cluster::new());
    let error = futures::executor::block_on(start).expect_err("no runtime");
    assert_eq!(error.kind(), ErrorKind::NoRuntime);
}

/// Deadlines need timers; without them it would be the intakes that panic.
#[test]
fn a_start_in_a_runtime_without_timers_is_an_error_and_no_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let start = consumer(&Probe::default()).start(Cluster::new());
    let error = runtime.block_on(start).expect_err("no timers");
    assert_eq!(error.kind(), ErrorKind::NoRuntime);
}
