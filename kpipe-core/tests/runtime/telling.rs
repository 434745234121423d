//! G8, G10 and G11: what a consumer says of itself while it runs, when it cannot go on, and at its end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kpipe_core::source::{Closed, Event, SourceError};
use kpipe_core::{
    Consumer, Context, ErrorKind, Failure, FailureKind, Handler, HandlerResult, OnFailure,
    Ordering, Record, TopicPartition,
};

use crate::memory::Cluster;
use crate::probe::{Probe, consumer, pass, settle, start};

const SECOND: Duration = Duration::from_secs(1);

/// Collects log lines on this thread, which is the only one of a paused clock.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let lines = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || lines.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    fn with(&self, words: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn of_failed_records_the_lowest_shows_and_the_report_keeps_them() {
    let cluster = Cluster::new();
    for value in ["done", "20ms", "panic", "fail"] {
        cluster.produce("t", 0, Some(value), value);
    }
    let slow_to_fail = |record: Record| async move {
        let slow = record.value() == Some(b"20ms");
        Probe::default().handle(record).await?;
        if slow { Err(Failure::msg("declined")) } else { Ok(()) }
    };
    let lines = Lines::default();
    let _guard = lines.listen();
    let running = start(Consumer::new("g").topic("t", slow_to_fail), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let first = running.stats().partitions[0].first_failed.clone().unwrap();
    assert_eq!(
        (first.offset, first.kind, first.key.as_deref()),
        (2, FailureKind::Panic, Some("panic"))
    );
    pass(1).await;
    let first = running.stats().partitions[0].first_failed.clone().unwrap();
    assert_eq!((first.offset, first.kind), (1, FailureKind::Handler));
    assert_eq!(first.to_string(), "offset 1, key 20ms: declined");
    assert_eq!(running.stats().partitions[0].frontier, 1, "which is what it waits for");

    let line = &lines.with("a record failed; it stays")[1];
    for said in ["partition=0", "offset=3", "key=\"fail\"", "kind=\"handler\"", "asked to fail"] {
        assert!(line.contains(said), "{said}: {line}");
    }

    let report = running.shutdown(SECOND).await.unwrap();
    assert_eq!(
        (report.stats.failed, report.stats.abandoned, report.stats.abandoned_failed),
        (0, 3, 3)
    );
    assert_eq!(report.first_failed[&TopicPartition::new("t", 0)], first);
    let text = report.to_string();
    let said = "4 received: 1 passed, 0 dropped, 3 abandoned (3 of them failed, the first at t/0 \
                offset 1, key 20ms: declined), 0 duplicate; positions committed in 1 partition; ";
    assert!(text.starts_with(said), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_report_no_longer_names_what_a_later_assignment_handled() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "x");
    let fails = Arc::new(AtomicBool::new(true));
    let failing = fails.clone();
    let handler = move |_: Record| {
        let fails = failing.load(Relaxed);
        async move { if fails { Err(Failure::msg("no")) } else { Ok(()) } }
    };
    let running = start(Consumer::new("g").topic("t", handler), &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    cluster.revoke("t", [0]);
    settle().await;
    assert_eq!(running.stats().abandoned_failed, 1);
    fails.store(false, Relaxed);
    cluster.assign("t", [0]);
    settle().await;
    let report = running.shutdown(SECOND).await.unwrap();
    assert_eq!((report.stats.passed, report.stats.abandoned_failed), (1, 1));
    assert!(report.first_failed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_late_report_says_how_late_and_what_is_not_committed() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.hang_at_close();
    for _ in 0..3 {
        cluster.produce("t", 0, None, "done");
    }
    let running = start(consumer(&probe).commit_interval(SECOND * 3_600), &cluster).await;
    cluster.answer_commits(false);
    cluster.assign("t", [0]);
    pass(100).await;
    let report = running.shutdown(SECOND * 5).await.unwrap();
    assert_eq!(report.closed, Closed::InBackground);
    assert_eq!(report.took, SECOND * 5, "and not since the start");
    assert_eq!(report.uncommitted[&TopicPartition::new("t", 0)], 3);
    assert!(report.to_string().contains(", t/0 not at 3; still closing"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_full_of_failed_records_says_so_once() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..30 {
        let value = if i < 20 { "fail" } else { "done" };
        cluster.produce("t", 0, Some(&i.to_string()), value);
    }
    let lines = Lines::default();
    let _guard = lines.listen();
    let consumer = consumer(&probe).max_in_flight(10).max_held(20);
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    let stats = running.stats();
    assert!(stats.full, "{stats:?}");
    assert_eq!((stats.failed, stats.held, stats.max_held, stats.max_in_flight), (20, 20, 20, 10));
    pass(600).await;
    assert_eq!(running.stats().passed, 0, "nothing more is taken");
    let told = lines.with("the consumer is full");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("WARN") && told[0].contains("failed=20"), "{told:?}");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_full_of_one_slow_key_says_so_and_one_that_is_busy_does_not() {
    for (keys, warnings) in [(1, 1), (4, 0)] {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        for i in 0..100 {
            cluster.produce("t", 0, Some(&(i % keys).to_string()), "1000ms");
        }
        let lines = Lines::default();
        let _guard = lines.listen();
        let consumer = consumer(&probe).max_in_flight(4).max_held(20);
        let running = start(consumer, &cluster).await;
        cluster.assign("t", [0]);
        pass(20).await;
        assert!(running.stats().full);
        assert_eq!(lines.with("the consumer is full").len(), warnings, "{keys} keys");
        drop(running);
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_window_is_full_says_so_once() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    for i in 0..30 {
        cluster.produce("t", 0, None, if i == 0 { "fail" } else { "done" });
    }
    let lines = Lines::default();
    let _guard = lines.listen();
    let running = start(consumer(&probe).max_finished_beyond(10), &cluster).await;
    cluster.assign("t", [0]);
    pass(600).await;
    for i in 0..30 {
        cluster.produce("t", 0, None, if i == 0 { "fail" } else { "done" });
    }
    pass(600).await;
    assert!(running.stats().partitions[0].full);
    assert_eq!(lines.with("the partition is full").len(), 1);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_monitor_outlives_the_handle_and_tells_the_end() {
    for fatal in [false, true] {
        let (cluster, probe) = (Cluster::new(), Probe::default());
        cluster.produce("t", 0, None, "done");
        let running = start(consumer(&probe), &cluster).await;
        let monitor = running.monitor();
        cluster.assign("t", [0]);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let until = tokio::spawn(running.until(async { _ = stopped.await }));
        settle().await;
        assert_eq!(monitor.stats().passed, 1);
        assert!(!monitor.has_ended());
        let ended = tokio::spawn({
            let monitor = monitor.clone();
            async move { monitor.ended().await }
        });
        if fatal {
            let message = "evicted for good".to_owned();
            cluster.send(Event::Error(SourceError { message, fatal }));
        } else {
            stop.send(()).unwrap();
        }
        ended.await.unwrap();
        assert!(monitor.has_ended());
        assert_eq!(until.await.unwrap().is_err(), fatal);
        assert_eq!(monitor.stats().passed, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_cannot_be_consumed_shows_until_it_can() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.fail_assigns("t", 1, 2);
    let running = start(consumer(&probe), &cluster).await;
    cluster.assign("t", [0, 1]);
    settle().await;
    let failed = running.stats().failed_partitions;
    assert_eq!(failed, [(TopicPartition::new("t", 1), "scripted".to_owned())]);
    pass(6).await;
    assert_eq!(running.stats().failed_partitions.len(), 1, "tried again and failed again");
    pass(11).await;
    assert!(running.stats().failed_partitions.is_empty());
    assert_eq!(running.stats().partitions.len(), 2);

    cluster.fail_assigns("t", 2, 1);
    cluster.assign("t", [2]);
    settle().await;
    assert_eq!(running.stats().failed_partitions.len(), 1);
    cluster.revoke("t", [2]);
    settle().await;
    assert!(running.stats().failed_partitions.is_empty(), "somebody else's now");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn the_lag_is_unknown_until_the_ends_are() {
    let (cluster, probe) = (Cluster::new(), Probe::default());
    cluster.produce("t", 0, None, "never");
    cluster.produce("t", 0, None, "never");
    let running = start(consumer(&probe).ordering(Ordering::Partition), &cluster).await;
    settle().await;
    assert_eq!(running.stats().lag(), Some(0), "of no partition");
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(running.stats().lag(), None);
    pass(6).await;
    assert_eq!(running.stats().lag(), Some(2));
    drop(running);
}

struct Counting(AtomicU64);

impl Handler for Counting {
    async fn handle(&self, _: Record, _: Context) -> HandlerResult {
        self.0.fetch_add(1, Relaxed);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_be_shared() {
    let cluster = Cluster::new();
    cluster.produce("t", 0, None, "x");
    let counting = Arc::new(Counting(Default::default()));
    let consumer = Consumer::new("g").topic("t", counting.clone()).on_failure(OnFailure::Drop);
    let running = start(consumer, &cluster).await;
    cluster.assign("t", [0]);
    settle().await;
    assert_eq!(counting.0.load(Relaxed), 1);
    drop(running);
}

#[tokio::test]
async fn a_topic_name_that_cannot_exist_is_refused() {
    let long = "t".repeat(250);
    for name in ["", "^pay.*", "a topic!", ".", "..", long.as_str(), "zürich"] {
        let consumer = Consumer::new("g").topic(name, |_: Record| async { Ok(()) });
        let error = consumer.start(Cluster::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("topic = {name:?}: must be a topic's name: 1 to 249")),
            "{text}"
        );
        assert!(text.ends_with("patterns are not supported"), "{text}");
    }
    let longest = "t".repeat(249);
    for name in ["payments.v1_a-B", "...", longest.as_str()] {
        let consumer = Consumer::new("g").topic(name, |_: Record| async { Ok(()) });
        drop(consumer.start(Cluster::new()).await.unwrap());
    }
}
