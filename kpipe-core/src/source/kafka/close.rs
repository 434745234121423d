//! Leaving the group and ending the client, never on a thread that runs futures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;

use super::assign::Assigner;
use super::client::{Shared, give_back};
use super::commit::Commits;
use super::ffi::Client;
use crate::source::Closed;

/// A leave is sent within a few milliseconds, unless the group is in the middle of a rebalance.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Everything that ends with the membership.
pub(super) struct Membership {
    pub(super) client: Arc<Client>,
    pub(super) shared: Arc<Shared>,
    pub(super) assigner: Arc<Assigner>,
    pub(super) commits: Arc<Commits>,
    pub(super) stop_polling: Arc<AtomicBool>,
    /// Whether the group keeps this member's place when it goes (`group.instance.id`).
    pub(super) keeps_its_place: bool,
    pub(super) threads: Vec<JoinHandle<()>>,
}

impl Membership {
    /// Leaves on a detached thread; the client is gone once its `gone` channel is closed. Should the
    /// system refuse a thread, the member goes on being polled and ends with the process.
    pub(super) fn leave_detached(self) {
        let _ = thread::Builder::new().name("kpipe-close".into()).spawn(move || self.leave());
    }

    fn leave(self) {
        // A rebalance from here on is answered where it arrives.
        let open = {
            let mut group = self.shared.group.lock();
            group.closing = true;
            group.take_all()
        };
        let turn = self.assigner.last_turn();
        self.client.silence_all();
        let consumer = self.client.consumer();
        let (cooperative, fetched) = {
            let group = self.shared.group.lock();
            (group.cooperative, group.fetched.clone())
        };
        // Before the answers: a member that answers a revoke while it subscribes joins again, and the
        // broker then looks at its leaving only once the others have joined too. A static member does
        // not leave: its partitions wait for it until its session ends.
        if !self.keeps_its_place {
            consumer.unsubscribe();
        }
        for rebalance in open {
            let fetched = rebalance.partitions.intersection(&fetched).cloned().collect();
            give_back(consumer, rebalance.kind, cooperative, fetched);
        }
        drop(turn);
        if !self.keeps_its_place {
            self.wait_until_left();
        }
        self.stop_polling.store(true, Ordering::Release);
        self.commits.stop(&self.client);
        for thread in self.threads {
            // A thread that panicked is gone just as well.
            let _ = thread.join();
        }
        // The last reference, but for calls that are under way on threads of their own: librdkafka
        // closes here, which takes 0.1 s or, with the coordinator away, a session.
        drop(self.assigner);
        drop(self.client);
    }
}

impl Membership {
    /// librdkafka can forget to leave when it is told to end while it still gives partitions back; the
    /// group would then miss this member for a whole session. The poll thread serves what comes.
    fn wait_until_left(&self) {
        let until = Instant::now() + LEAVE_WITHIN;
        while !self.client.is_outside() && Instant::now() < until {
            thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// Waits until the client is gone.
pub(super) fn wait(gone: &mpsc::Receiver<()>, within: Duration) -> Closed {
    match gone.recv_timeout(within) {
        Err(mpsc::RecvTimeoutError::Timeout) => Closed::InBackground,
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => Closed::Completely,
    }
}
