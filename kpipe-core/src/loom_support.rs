//! What the loom models of the rooms share: running one, and showing that it reached what it is
//! there for.
//!
//! A model that never takes the branch it was written for is green whatever the code does. So each
//! names its rare branches, and [`explore`] fails when one of them was taken in no execution.

use std::any::type_name;
use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use loom::future::block_on;

use crate::sync::Mutex;
use crate::wake::{Reasons, Signal};

/// Something that happens in some executions of a model and must happen in at least one. Its
/// counter is not loom's: it outlives the executions and adds no states.
#[derive(Debug)]
pub(crate) struct Branch {
    name: &'static str,
    taken: AtomicUsize,
}

impl Branch {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, taken: AtomicUsize::new(0) }
    }

    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, Relaxed);
    }
}

/// Takes one of two branches.
pub(crate) fn take_either(first: bool, one: &Branch, other: &Branch) {
    if first { one.take() } else { other.take() }
}

/// Runs every execution of `model` and prints how many there were and how often each branch was
/// taken. `LOOM_MAX_PREEMPTIONS` does not narrow it: most models are small enough to be explored
/// whole.
pub(crate) fn explore<F>(branches: &[&'static Branch], model: F)
where
    F: Fn() + Send + Sync + 'static,
{
    check(None, branches, model);
}

/// Like [`explore`] for a model that is too large: only the executions in which threads are
/// interrupted at most `preemptions` times, or `LOOM_MAX_PREEMPTIONS` times where that is more.
pub(crate) fn explore_within<F>(preemptions: usize, branches: &[&'static Branch], model: F)
where
    F: Fn() + Send + Sync + 'static,
{
    let wanted = loom::model::Builder::new().preemption_bound;
    check(Some(wanted.unwrap_or(0).max(preemptions)), branches, model);
}

fn check<F>(bound: Option<usize>, branches: &[&'static Branch], model: F)
where
    F: Fn() + Send + Sync + 'static,
{
    let executions = Arc::new(AtomicUsize::new(0));
    let name = name_of(&model);
    let counted = {
        let executions = executions.clone();
        move || {
            executions.fetch_add(1, Relaxed);
            model();
        }
    };
    // The other settings, such as the file of a failing execution, come from the environment.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.check(counted);

    let mut line = format!("{name}: {} executions", executions.load(Relaxed));
    if let Some(bound) = bound {
        line += &format!(" within {bound} preemptions");
    }
    for branch in branches {
        line += &format!("; {}: {}", branch.name, branch.taken.load(Relaxed));
    }
    // Not println: that would be shown for failures only.
    writeln!(io::stderr(), "{line}").expect("stderr is open");
    for branch in branches {
        assert_ne!(branch.taken.load(Relaxed), 0, "no execution took the branch: {}", branch.name);
    }
}

/// Waits for a reason, as an intake or the control loop does. A wake-up that is lost is a deadlock,
/// which loom reports.
pub(crate) fn wait(signal: &Signal) -> Reasons {
    block_on(poll_fn(|cx| signal.poll_take(cx)))
}

/// What has been raised so far, without waiting for it.
pub(crate) fn raised(signal: &Signal) -> Reasons {
    match signal.poll_take(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reasons) => reasons,
        Poll::Pending => Reasons::default(),
    }
}

/// Handlers of one lane: it fails a model in which two of them run at once, and notes who ran.
#[derive(Debug, Default)]
pub(crate) struct OneAtATime {
    /// Not loom's, so that it orders nothing.
    running: AtomicUsize,
    ran: Mutex<Vec<u64>>,
}

impl OneAtATime {
    pub(crate) fn run(&self, record: u64) {
        assert_eq!(self.running.fetch_add(1, Relaxed), 0, "{record} runs beside another");
        // Taking loom's lock lets any other thread go on in the middle of the handler.
        self.ran.lock().push(record);
        self.running.fetch_sub(1, Relaxed);
    }

    /// Which records ran, in order.
    pub(crate) fn ran(&self) -> Vec<u64> {
        self.ran.lock().clone()
    }
}

/// The name of the test that a model is written in.
fn name_of<F>(_: &F) -> &'static str {
    let path = type_name::<F>().trim_end_matches("::{{closure}}");
    path.rsplit("::").next().unwrap_or(path)
}
