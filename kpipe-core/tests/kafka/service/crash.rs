//! G1 over a kill -9: nothing is lost, and what was committed is not handled again.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kpipe_core::{Consumer, Record};

use super::super::cluster::Cluster;
use super::super::member::group;
use super::{committed, start, until};

const PARTITIONS: i32 = 4;
const RECORDS: u32 = 3_000;
const ALL: usize = PARTITIONS as usize * RECORDS as usize;
/// Set for a child process, which is this very test run again.
const CHILD: &str = "KPIPE_TEST_CRASH_CHILD";

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_every_record_is_handled_and_none_below_the_committed_offset_again() {
    if let Ok(arguments) = std::env::var(CHILD) {
        return child(&arguments).await;
    }
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(PARTITIONS).await;
    for partition in 0..PARTITIONS {
        cluster.fill(&topic, partition, RECORDS);
    }
    let group = group();
    let first = Process::start(cluster, &group, &topic, "first");
    let begun = Instant::now();
    while first.handled().len() < ALL / 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the first process does not get on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = first.kill();
    let at_crash = committed(cluster, &group, &topic, PARTITIONS);
    assert!(before.len() < ALL, "killed in the middle");
    for (partition, next) in at_crash.iter().enumerate() {
        for offset in 0..*next {
            assert!(before.contains(&(partition as i32, offset)), "committed and not handled");
        }
    }

    let second = Process::start(cluster, &group, &topic, "second");
    let begun = Instant::now();
    let after = loop {
        let after = second.handled();
        let all: HashSet<_> = before.union(&after).collect();
        if all.len() == ALL {
            break after;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{} of {ALL} handled", all.len());
        std::thread::sleep(Duration::from_millis(20));
    };
    for (partition, offset) in &after {
        assert!(*offset >= at_crash[*partition as usize], "{partition}/{offset} was committed");
    }
    second.kill();
}

/// Handles records and writes each to a file before it counts as done.
async fn child(arguments: &str) {
    let mut arguments = arguments.split('|');
    let mut next = || arguments.next().expect("address, group, topic, file").to_owned();
    let (address, group, topic, file) = (next(), next(), next(), next());
    let cluster = Cluster { address: Box::leak(address.into_boxed_str()) };
    let log = Arc::new(OpenOptions::new().append(true).create(true).open(file).expect("a file"));
    let consumer = Consumer::new(group)
        .topic(topic, move |record: Record| {
            let log = log.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(1 + record.offset() as u64 % 5)).await;
                let line = format!("{} {}\n", record.partition(), record.offset());
                // One write to the system: a kill leaves whole lines.
                (&*log as &File).write_all(line.as_bytes())?;
                Ok(())
            }
        })
        .max_in_flight(100)
        .commit_interval(Duration::from_millis(100));
    let _running = start(consumer, cluster).await;
    std::future::pending::<()>().await;
}

struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(cluster: Cluster, group: &str, topic: &str, name: &str) -> Self {
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{group}-{name}"));
        let arguments = [cluster.address, group, topic, log.to_str().expect("a path")].join("|");
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .arg("service::crash::after_a_kill_every_record_is_handled_and_none_below_the_committed_offset_again")
            .env(CHILD, arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child process");
        Self { child, log }
    }

    fn handled(&self) -> HashSet<(i32, i64)> {
        let mut text = String::new();
        if let Ok(mut file) = File::open(&self.log) {
            file.read_to_string(&mut text).expect("text");
        }
        let number = |line: &str| {
            let (partition, offset) = line.split_once(' ')?;
            Some((partition.parse().ok()?, offset.parse().ok()?))
        };
        text.lines().filter_map(number).collect()
    }

    /// Kills the process as a power cut would; returns everything that it handled.
    fn kill(mut self) -> HashSet<(i32, i64)> {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
        self.handled()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_shutdown_the_committed_offsets_are_the_counts() {
    let Some(cluster) = Cluster::get() else { return };
    let topic = cluster.topic(PARTITIONS).await;
    for partition in 0..PARTITIONS {
        cluster.fill(&topic, partition, 5_000);
    }
    let group = group();
    let consumer =
        Consumer::new(group.clone()).topic(topic.as_str(), |record: Record| async move {
            if record.offset() % 3 == 0 {
                tokio::task::yield_now().await;
            }
            Ok(())
        });
    let running = start(consumer, cluster).await;
    until("half is done", || running.stats().passed >= 10_000).await;
    let report = running.shutdown(Duration::from_secs(10)).await.unwrap();
    let stats = &report.stats;
    assert_eq!(stats.received, stats.passed + stats.abandoned, "{report}");
    let committed = committed(cluster, &group, &topic, PARTITIONS);
    let reported: Vec<_> = report.committed.values().copied().collect();
    assert_eq!(committed, reported);
    // Everything below a committed offset passed; more may have, beyond a record that was given up.
    let done = committed.iter().sum::<i64>() as u64;
    assert!(done <= stats.passed, "{report}");
}
