//! The task that takes a partition's records when the budget admits them and sets them going.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{coop, yield_now};
use tokio::time::Instant;

use super::attempt::{Run, Slot, attempt, deadline_from, poll_slot, record_task};
use super::epoch::{Epoch, Ticket};
use super::isolate;
use super::pace::Pace;
use super::second::SecondLook;
use crate::failure::Failure;
use crate::frontier::Seq;
use crate::handler::{Handler, HandlerResult};
use crate::lanes::LaneKey;
use crate::partition::{Claim, Draw, End, Runnable};
use crate::record::Record;
use crate::source::{Outcome, TraceEvent};
use crate::wake::Reasons;

/// Records taken at once: past 128 the client's batch call gets no cheaper.
const BATCH: u64 = 128;
/// Slots taken at once.
const SLOTS: u64 = 32;
/// The queue's event is a hint; a look this often is the guarantee.
const LOOK: Duration = Duration::from_secs(1);

/// Starts what works on a topic's partitions; keeps the handler's type out of the control loop.
pub(crate) trait Work: Send + Sync {
    /// Starts the intake of an epoch.
    fn start(&self, epoch: Arc<Epoch>, runtime: &Handle);
}

impl<H: Handler> Work for Arc<H> {
    fn start(&self, epoch: Arc<Epoch>, runtime: &Handle) {
        let run = Arc::new(Run { epoch, handler: self.clone() });
        let intake = Intake::new(run, attempt::<H>);
        runtime.spawn(intake.run());
    }
}

struct Intake<H: Handler, F, M> {
    run: Arc<Run<H>>,
    /// Makes the future of an attempt, whose type has no name.
    make: M,
    slot: Slot<F>,
    pace: Pace,
    batch: Vec<Record>,
    /// The batch's lanes, found before the partition's lock is taken.
    lanes: Vec<Option<LaneKey>>,
    /// Records whose key function panicked, by offset.
    unkeyed: Vec<(i64, Failure)>,
    runnable: VecDeque<Runnable<Record>>,
    /// Room for records, acquired and not used.
    held: u64,
    /// Slots, acquired and not used.
    slots: u64,
    passed: PassedRun,
    /// Attempts that pended at their first poll and get a second one here before they become tasks.
    pended: Vec<Pended<F>>,
    second: SecondLook,
    /// Slots of attempts that have ended, to be used again.
    spare: Vec<Slot<F>>,
    /// Whether a record of this batch has made a lane, so that a later one may have to queue in it.
    lane_made: bool,
    /// This task's cooperative budget is used up.
    spent: bool,
    /// Records arrived while the batch waited for slots.
    arrived: bool,
}

/// Records in a row that passed at their first poll and are not reported yet.
#[derive(Default)]
struct PassedRun {
    first: Option<Seq>,
    count: u64,
    bytes: u64,
}

/// An attempt that pended, with the slot and the held record that it keeps.
struct Pended<F> {
    slot: Slot<F>,
    ticket: Ticket,
}

/// The epoch takes no more records.
struct Stopped;

impl<H, F, M> Intake<H, F, M>
where
    H: Handler,
    F: Future<Output = HandlerResult> + Send + 'static,
    M: Fn(Arc<Run<H>>, Record, u32, Option<Instant>) -> F + Copy + Send + Sync + 'static,
{
    fn new(run: Arc<Run<H>>, make: M) -> Self {
        Self {
            pace: Pace::new(run.epoch.settings.first_poll_inline, Instant::now()),
            run,
            make,
            slot: Box::pin(None),
            batch: Vec::new(),
            lanes: Vec::new(),
            unkeyed: Vec::new(),
            runnable: VecDeque::new(),
            held: 0,
            slots: 0,
            passed: PassedRun::default(),
            pended: Vec::new(),
            second: SecondLook::default(),
            spare: Vec::new(),
            lane_made: false,
            spent: false,
            arrived: false,
        }
    }

    async fn run(mut self) {
        while let Ok(()) = self.turn().await {}
    }

    /// Takes one batch and sets it going, or waits for a reason to.
    async fn turn(&mut self) -> Result<(), Stopped> {
        self.resume_all().await?;
        // Room first: it was woken for it, maybe, and if the window has no use for it now, giving it
        // back wakes the next partition that waits.
        // What is left of it is exchanged before it dwindles to batches of one.
        if self.held < BATCH / 2 {
            let epoch = &self.run.epoch;
            epoch.budget.release_held(epoch.share, std::mem::take(&mut self.held), 0);
            self.held = epoch.budget.acquire_held(epoch.share, BATCH);
            if self.held == 0 {
                return self.wait(None).await;
            }
        }
        match self.run.epoch.partition.draw() {
            Draw::Yes => {}
            Draw::WindowFull => return self.wait(None).await,
            Draw::Stopped => return Err(Stopped),
        }
        let most = self.held.min(BATCH);
        self.arrived = false;
        let taken = self.run.epoch.queue.take(most as usize, &mut self.batch) as u64;
        if taken > 0 {
            self.admit(taken)?;
            self.set_going().await?;
        }
        if taken < most && !self.arrived {
            return self.wait(Some(LOOK)).await;
        }
        self.give_slots_back();
        yield_now().await;
        Ok(())
    }

    /// Registers the batch with the partition.
    fn admit(&mut self, taken: u64) -> Result<(), Stopped> {
        self.pace.resume(Instant::now());
        self.lane_made = false;
        self.held -= taken;
        let bytes = payload(&self.batch);
        self.find_lanes();

        let epoch = &self.run.epoch;
        epoch.budget.charge_bytes(epoch.share, bytes);
        let records = self.batch.drain(..).zip(self.lanes.drain(..));
        // Told under the partition's lock, so that none of them can have begun.
        let batch = records.map(|(record, lane)| {
            epoch.tell(TraceEvent::Received { offset: record.offset() });
            (record.offset(), lane, record)
        });
        let age = epoch.age_of(epoch.clock.now());
        let admitted = epoch.partition.admit(batch, age, &mut self.runnable);
        if admitted.stopped {
            epoch.budget.release_held(epoch.share, taken, bytes);
            return Err(Stopped);
        }
        if !admitted.duplicates.is_empty() {
            for duplicate in &admitted.duplicates {
                epoch.tell(TraceEvent::Duplicate { offset: duplicate.offset() });
            }
            let count = admitted.duplicates.len() as u64;
            epoch.budget.release_held(epoch.share, count, payload(&admitted.duplicates));
        }
        Ok(())
    }

    fn find_lanes(&mut self) {
        let settings = &self.run.epoch.settings;
        // What is left are duplicates, which nobody asks for.
        self.unkeyed.clear();
        for record in &self.batch {
            let lane = if settings.runs_user_code_for_lanes() {
                isolate::run(|| settings.lane(record)).unwrap_or_else(|panic| {
                    self.unkeyed.push((record.offset(), panic));
                    None
                })
            } else {
                settings.lane(record)
            };
            self.lanes.push(lane);
        }
    }

    /// Sets every runnable record of the batch going.
    async fn set_going(&mut self) -> Result<(), Stopped> {
        let begun = self.begin_all().await;
        if self.spent {
            self.rest().await;
        }
        self.look_again();
        self.report_passed();
        begun
    }

    /// Begins every runnable record of the batch, in order.
    async fn begin_all(&mut self) -> Result<(), Stopped> {
        while !self.runnable.is_empty() {
            if self.spent {
                self.rest().await;
            }
            if self.slots == 0 {
                self.look_again();
            }
            if self.slots == 0 {
                self.acquire_slots(self.runnable.len() as u64).await?;
                // They came before what is in this batch.
                self.resume();
                continue;
            }
            let Some(record) = self.runnable.pop_front() else { break };
            self.begin(record)?;
        }
        Ok(())
    }

    /// Starts every successor whose slot went to another partition.
    async fn resume_all(&mut self) -> Result<(), Stopped> {
        while self.run.epoch.partition.has_ready() {
            if self.slots == 0 {
                self.acquire_slots(SLOTS).await?;
            }
            self.resume();
        }
        Ok(())
    }

    /// Starts those of them for which there is a slot, as tasks.
    fn resume(&mut self) {
        while self.slots > 0
            && let Some(next) = self.run.epoch.partition.take_ready()
        {
            self.slots -= 1;
            let slot = self.spare.pop().unwrap_or_else(|| Box::pin(None));
            self.spawn_successor(slot, next);
        }
    }

    /// Makes a successor, which has a slot of the budget, a task of its own.
    fn spawn_successor(&self, mut slot: Slot<F>, next: Runnable<Record>) {
        let ticket = Ticket::of(&next);
        let epoch = &self.run.epoch;
        let deadline = deadline_from(epoch, epoch.clock.now());
        epoch.tell_began(ticket.offset, deadline);
        slot.as_mut().set(Some((self.make)(self.run.clone(), next.item, 1, deadline)));
        self.spawn(Pended { slot, ticket });
    }

    /// Starts one record, for which there is a slot.
    fn begin(&mut self, record: Runnable<Record>) -> Result<(), Stopped> {
        let inline = self.pace.inline(Instant::now);
        let record = if record.lane.is_some() && (self.lane_made || !inline) {
            let bytes = record.item.payload_len() as u64;
            match self.run.epoch.partition.claim(record, !inline) {
                Claim::Run(record) => record,
                Claim::Parked => return Ok(()),
                Claim::Stopped(record) => {
                    self.run.epoch.tell(TraceEvent::GivenUp { offset: record.offset() });
                    self.run.epoch.budget.release_held(self.run.epoch.share, 1, bytes);
                    return Err(Stopped);
                }
            }
        } else {
            record
        };
        let ticket = Ticket::of(&record);
        let epoch = &self.run.epoch;
        let deadline = deadline_from(epoch, epoch.clock.at(self.pace.last_reading()));
        epoch.tell_began(ticket.offset, deadline);
        if !self.unkeyed.is_empty() && self.fail_unkeyed(ticket) {
            return Ok(());
        }
        let future = (self.make)(self.run.clone(), record.item, 1, deadline);
        self.slot.as_mut().set(Some(future));
        if inline {
            self.poll_first(ticket);
        } else {
            self.lane_made |= ticket.lane.is_some();
            let attempt = self.take_pended(ticket);
            self.spawn(attempt);
        }
        Ok(())
    }

    /// Polls an attempt once in this task.
    fn poll_first(&mut self, ticket: Ticket) {
        let mut cx = TaskContext::from_waker(Waker::noop());
        let polled = poll_slot(&mut self.slot, &mut cx);
        self.pace.polled(Instant::now);
        match polled {
            Poll::Ready(Ok(())) => self.pass(ticket),
            Poll::Ready(Err(failure)) => self.fail(ticket, failure),
            Poll::Pending => {
                if let Some(lane) = ticket.lane {
                    self.run.epoch.partition.hold(lane);
                    self.lane_made = true;
                }
                let attempt = self.take_pended(ticket);
                self.spent = !coop::has_budget_remaining();
                if self.spent || self.second.is_worth_it() {
                    self.pended.push(attempt);
                } else {
                    self.spawn(attempt);
                }
            }
        }
    }

    /// Takes the attempt out of the slot for first polls, together with what it uses of the budget.
    fn take_pended(&mut self, ticket: Ticket) -> Pended<F> {
        self.slots -= 1;
        let empty = self.spare.pop().unwrap_or_else(|| Box::pin(None));
        let slot = std::mem::replace(&mut self.slot, empty);
        Pended { slot, ticket }
    }

    /// Polls what pended once more: by the end of a batch many a short wait is over. What is still
    /// not ready becomes a task, which polls it again with a waker that counts.
    fn look_again(&mut self) {
        let mut pended = std::mem::take(&mut self.pended);
        for mut attempt in pended.drain(..) {
            if !self.pace.inline(Instant::now) {
                self.spawn(attempt);
                continue;
            }
            let mut cx = TaskContext::from_waker(Waker::noop());
            let polled = poll_slot(&mut attempt.slot, &mut cx);
            self.pace.polled(Instant::now);
            self.second.looked(polled.is_ready());
            match polled {
                Poll::Pending => self.spawn(attempt),
                Poll::Ready(result) => self.end_pended(attempt, result),
            }
        }
        self.pended = pended;
    }

    /// Ends an attempt at its second poll. A successor in its lane takes over its slot, as a task.
    fn end_pended(&mut self, attempt: Pended<F>, result: HandlerResult) {
        let Pended { slot, ticket, .. } = attempt;
        if ticket.lane.is_none() && result.is_ok() {
            self.slots += 1;
            self.pass(ticket);
            self.spare.push(slot);
            return;
        }
        let epoch = &self.run.epoch;
        let end = match result {
            Ok(()) => End::Passed,
            Err(failure) => epoch.end_of_failure(ticket, failure),
        };
        let Some(next) = epoch.conclude(ticket, end) else {
            self.spare.push(slot);
            return;
        };
        self.spawn_successor(slot, next);
    }

    /// Makes an attempt a task of its own. Its deadline counts from now: the first polls of others
    /// may have taken long.
    fn spawn(&self, attempt: Pended<F>) {
        let Pended { slot, ticket } = attempt;
        let now = self.run.epoch.clock.now();
        tokio::spawn(record_task(self.run.clone(), self.make, slot, ticket, now));
    }

    /// Lets other tasks run, and comes back with a cooperative budget that is whole. Without one,
    /// operations pend that are ready.
    async fn rest(&mut self) {
        self.report_passed();
        yield_now().await;
        self.spent = false;
        self.pace.resume(Instant::now());
    }

    /// Notes a record that passed at its first poll; runs of them are reported under one lock.
    fn pass(&mut self, ticket: Ticket) {
        let passed = Outcome::Passed;
        self.run.epoch.tell(TraceEvent::Ended { offset: ticket.offset, outcome: passed });
        let next = self.passed.first.map(|first| first.plus(self.passed.count));
        if next != Some(ticket.seq) {
            self.report_passed();
            self.passed.first = Some(ticket.seq);
        }
        self.passed.count += 1;
        self.passed.bytes += ticket.bytes;
    }

    /// Ends a record that failed at its first poll.
    fn fail(&mut self, ticket: Ticket, failure: Failure) {
        let epoch = &self.run.epoch;
        let end = epoch.end_of_failure(ticket, failure);
        // A record that stays keeps its lane busy, so that its successors wait.
        if let (End::Held(_), Some(lane)) = (&end, ticket.lane) {
            epoch.partition.hold(lane);
            self.lane_made = true;
        }
        self.slots -= 1;
        let unlaned = Ticket { lane: None, ..ticket };
        let next = epoch.conclude(unlaned, end);
        debug_assert!(next.is_none(), "a record without a lane has no successor");
    }

    /// Fails a record whose key function panicked.
    fn fail_unkeyed(&mut self, ticket: Ticket) -> bool {
        let Some(at) = self.unkeyed.iter().position(|(offset, _)| *offset == ticket.offset) else {
            return false;
        };
        let (_, failure) = self.unkeyed.swap_remove(at);
        self.fail(ticket, failure);
        true
    }

    /// Acquires at least one slot, waiting for it if it has to.
    async fn acquire_slots(&mut self, want: u64) -> Result<(), Stopped> {
        loop {
            let epoch = &self.run.epoch;
            self.slots = epoch.budget.acquire_slots(epoch.share, want.min(SLOTS));
            if self.slots > 0 {
                return Ok(());
            }
            // What is done is done now, however long the wait.
            self.report_passed();
            let reasons = self.wait_for_reason(None).await?;
            // The wait at the batch's end would no longer hear of it.
            self.arrived |= reasons.contains(Reasons::ARRIVAL);
            self.pace.resume(Instant::now());
        }
    }

    /// Waits between batches; nothing acquired is kept meanwhile.
    async fn wait(&mut self, at_most: Option<Duration>) -> Result<(), Stopped> {
        self.give_slots_back();
        let epoch = &self.run.epoch;
        let unused = std::mem::take(&mut self.held);
        if unused > 0 {
            epoch.budget.release_held(epoch.share, unused, 0);
        }
        self.wait_for_reason(at_most).await.map(drop)
    }

    async fn wait_for_reason(&mut self, at_most: Option<Duration>) -> Result<Reasons, Stopped> {
        let signal = &self.run.epoch.signal;
        let raised = poll_fn(|cx| signal.poll_take(cx));
        let reasons = match at_most {
            None => raised.await,
            Some(at_most) => {
                self.run.epoch.clock.timeout(at_most, raised).await.unwrap_or_default()
            }
        };
        if reasons.contains(Reasons::STOP) { Err(Stopped) } else { Ok(reasons) }
    }

    fn give_slots_back(&mut self) {
        let unused = std::mem::take(&mut self.slots);
        if unused > 0 {
            self.run.epoch.budget.release_slots(self.run.epoch.share, unused);
        }
    }
}

impl<H: Handler, F, M> Intake<H, F, M> {
    /// Reports the run of records that passed, if there is one.
    fn report_passed(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        let Some(first) = passed.first else { return };
        let epoch = &self.run.epoch;
        epoch.partition.finish_run(first, passed.count);
        epoch.budget.release_held(epoch.share, 0, passed.bytes);
        self.held += passed.count;
    }
}

/// However an intake ends, what it passed counts, what it never began is given up, and its share of
/// the budget ends with it; what its tasks still use comes back as they end.
impl<H: Handler, F, M> Drop for Intake<H, F, M> {
    fn drop(&mut self) {
        self.report_passed();
        for attempt in self.pended.drain(..) {
            self.run.epoch.conclude(attempt.ticket, End::Abandoned);
        }
        while let Some(next) = self.run.epoch.partition.take_ready() {
            self.runnable.push_back(next);
        }
        let never_began = self.runnable.len() as u64;
        let bytes = payload(self.runnable.iter().map(|record| &record.item));
        let epoch = &self.run.epoch;
        for record in &self.runnable {
            epoch.tell(TraceEvent::GivenUp { offset: record.item.offset() });
        }
        epoch.partition.abandon(never_began);
        epoch.budget.release_slots(epoch.share, self.slots);
        epoch.budget.release_held(epoch.share, self.held + never_began, bytes);
        epoch.budget.leave(epoch.share);
        epoch.intake_ended();
    }
}

fn payload<'a>(records: impl IntoIterator<Item = &'a Record>) -> u64 {
    records.into_iter().map(|record| record.payload_len() as u64).sum()
}
