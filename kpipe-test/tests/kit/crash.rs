//! Every point at which a process can die.

use std::time::Duration;

use kpipe_core::{Consumer, Record};
use kpipe_test::{Crash, CrashRestartHarness};

fn yielding() -> Consumer {
    Consumer::new("g").topic("t", |record: Record| async move {
        if record.offset() % 3 == 0 {
            tokio::task::yield_now().await;
        }
        Ok(())
    })
}

fn napping() -> Consumer {
    Consumer::new("g").topic("t", |_: Record| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    })
}

#[tokio::test]
async fn nothing_is_lost_and_only_what_no_commit_told_of_is_handled_again() {
    for make in [yielding, napping] {
        for partitions in [1, 3] {
            for crash in [
                Crash::AfterReceive,
                Crash::InHandler,
                Crash::BeforeAck,
                Crash::BeforeCommit,
                Crash::InRebalance,
            ] {
                let harness = CrashRestartHarness::new(make).records(200).partitions(partitions);
                let run = harness.crash_when(crash).run().await;
                run.assert_at_least_once();
                run.assert_exact_window();
                run.run().assert_in_order_per_key();
                let again = run.handled_twice();
                assert_eq!(again, run.finished_but_unrecorded(), "{crash:?}");
                match crash {
                    Crash::BeforeCommit => {
                        assert_eq!(again.len(), 100, "the half that was not committed")
                    }
                    Crash::BeforeAck => {
                        assert!(!again.is_empty() && again.len() < 100, "{again:?}")
                    }
                    _ => assert!(again.len() < 100, "{crash:?}: {again:?}"),
                }
            }
        }
    }
}
