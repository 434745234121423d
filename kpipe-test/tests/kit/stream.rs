//! What a flush does, and what its run says.

use std::time::Duration;

use kpipe_core::{Consumer, ErrorKind, Failure, OnFailure, Ordering, Record};
use kpipe_test::{RecordState, TestRecord, TestStream};

/// Passes, fails or hangs, as the record's value says.
async fn obey(record: Record) -> Result<(), Failure> {
    match record.value().unwrap_or_default() {
        b"fail" => Err(Failure::msg("asked to fail")),
        b"hang" => std::future::pending().await,
        b"yield" => {
            tokio::task::yield_now().await;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn consumer() -> Consumer {
    Consumer::new("g").topic("t", obey)
}

fn hundred(stream: &mut TestStream) {
    for index in 0..100 {
        let value = if index % 3 == 0 { "yield" } else { "pass" };
        stream.send("t", TestRecord::key(format!("k{}", index % 7)).value(value));
    }
}

#[tokio::test]
async fn everything_is_finished_in_order_and_committed() {
    let mut stream = TestStream::new(consumer()).partitions(4);
    hundred(&mut stream);
    let run = stream.flush().await;
    run.assert_all_passed();
    run.assert_at_most_once();
    run.assert_in_order_per_key();
    let committed: i64 = (0..4).filter_map(|partition| run.committed("t", partition)).sum();
    assert_eq!((committed, run.stats().passed), (100, 100));
    assert_eq!(run.order_of("t", "k3").len(), 14);
}

#[tokio::test]
async fn records_that_are_ready_at_once_are_committed() {
    let mut stream = TestStream::new(consumer());
    for _ in 0..100 {
        stream.send("t", TestRecord::new());
    }
    assert_eq!(stream.flush().await.committed("t", 0), Some(100));
}

#[tokio::test(start_paused = true)]
async fn a_paused_runtime_is_the_same() {
    let mut stream = TestStream::new(consumer());
    hundred(&mut stream);
    stream.flush().await.assert_all_passed();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_of_several_threads_is_the_same() {
    let mut stream = TestStream::new(consumer()).partitions(3);
    hundred(&mut stream);
    let run = stream.flush().await;
    run.assert_all_passed();
    run.assert_in_order_per_key();
}

#[tokio::test]
async fn a_flush_goes_on_where_the_last_one_ended() {
    let mut stream = TestStream::new(consumer());
    assert_eq!(stream.send("t", TestRecord::new().value("a")), (0, 0));
    assert_eq!(stream.flush().await.committed("t", 0), Some(1));
    assert_eq!(stream.send("t", TestRecord::new().value("b")), (0, 1));
    let run = stream.flush().await;
    assert_eq!(run.committed("t", 0), Some(2));
    assert_eq!(
        (run.attempts("t", 0, 0), run.attempts("t", 0, 1), run.attempts("t", 0, 2)),
        (1, 1, 0)
    );
    let report = stream.shutdown().await.unwrap().unwrap();
    assert_eq!(report.stats.passed, 2);
}

#[tokio::test]
async fn a_record_that_is_held_ends_the_flush_and_shows() {
    let mut stream = TestStream::new(consumer());
    for value in ["pass", "fail", "pass"] {
        stream.send("t", TestRecord::key("k").value(value));
    }
    let run = stream.flush().await;
    let states: Vec<_> = run.records().map(|(_, _, record)| record.state.to_string()).collect();
    assert_eq!(states, ["passed", "failed and held", "received and waiting"]);
    assert_eq!(run.record("t", 0, 1).unwrap().errors, ["asked to fail"]);
    assert_eq!(run.committed("t", 0), Some(1));
    let panic = std::panic::catch_unwind(|| run.assert_all_finished()).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(
        text.contains("2 of 3 records") && text.contains("record 1 of t/0: failed and held"),
        "{text}"
    );
}

/// The deadline passes in no time, whatever the runtime's clock is.
#[tokio::test]
async fn a_handler_that_never_ends_meets_its_deadline() {
    let begun = std::time::Instant::now();
    let mut stream =
        TestStream::new(consumer().on_failure(OnFailure::Drop)).patience(Duration::from_millis(20));
    stream.send("t", TestRecord::new().value("hang"));
    let run = stream.flush().await;
    run.assert_all_finished();
    let record = run.record("t", 0, 0).unwrap();
    assert!(record.errors[0].contains("deadline"), "{:?}", record.errors);
    assert!(begun.elapsed() < Duration::from_secs(60), "and not after five minutes");
}

#[tokio::test]
#[should_panic(expected = "record 0 of t/0 never finished: handler pending since")]
async fn a_handler_that_never_ends_and_has_no_deadline_is_named() {
    let mut stream =
        TestStream::new(consumer().no_attempt_deadline()).patience(Duration::from_millis(20));
    stream.send("t", TestRecord::new().value("hang"));
    stream.flush().await;
}

/// Under a paused clock a handler's own sleep takes its time of the deadline.
#[tokio::test(start_paused = true)]
async fn a_handler_that_sleeps_past_its_deadline_fails() {
    let sleeper = |_: Record| async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok(())
    };
    let consumer = Consumer::new("g").topic("t", sleeper).on_failure(OnFailure::Drop);
    let mut stream = TestStream::new(consumer);
    stream.send("t", TestRecord::new());
    let run = stream.flush().await;
    let record = run.record("t", 0, 0).unwrap();
    assert!(record.errors.iter().any(|error| error.contains("deadline")), "{record:?}");
}

#[tokio::test]
async fn a_wrong_setting_is_told_at_the_start() {
    let mut stream = TestStream::new(consumer().max_in_flight(0));
    let error = stream.start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
#[should_panic(expected = "`payment` does not exist; the consumer's topics are [\"t\"]")]
async fn a_record_to_a_topic_that_is_not_there_is_refused() {
    TestStream::new(consumer()).send("payment", TestRecord::new());
}

#[tokio::test]
async fn records_come_as_they_were_sent() {
    let (seen, mut records) = tokio::sync::mpsc::unbounded_channel();
    let keep = move |record: Record| {
        seen.send(record).unwrap();
        async { Ok(()) }
    };
    let mut stream = TestStream::new(Consumer::new("g").topic("t", keep)).partitions(3);
    let record = TestRecord::key("k").tombstone().header("a", "1").header("a", "2");
    assert_eq!(stream.send("t", record.timestamp(7).partition(2)), (2, 0));
    stream.flush().await.assert_all_passed();
    let record = records.recv().await.unwrap();
    assert_eq!((record.key(), record.value()), (Some(&b"k"[..]), None));
    assert_eq!((record.partition(), record.timestamp().millis()), (2, Some(7)));
    let values: Vec<_> =
        record.headers().iter().map(|header| header.value().unwrap().to_vec()).collect();
    assert_eq!(values, [b"1", b"2"]);
}

/// Full of what is held, the consumer has nothing left to do.
#[tokio::test]
async fn a_consumer_that_is_full_of_failures_ends_the_flush() {
    let consumer = consumer().ordering(Ordering::Parallel).max_in_flight(2).max_held(2);
    let mut stream = TestStream::new(consumer);
    for _ in 0..5 {
        stream.send("t", TestRecord::new().value("fail"));
    }
    let run = stream.flush().await;
    let held = run.records().filter(|(_, _, record)| record.state.to_string() == "failed and held");
    assert_eq!(held.count(), 2);
    assert_eq!(run.record("t", 0, 4).unwrap().state, RecordState::NotReceived);
}
