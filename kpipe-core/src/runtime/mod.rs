//! The shell around the engine rooms: tasks, threads and time.
//!
//! One control loop follows the group, on a thread of its own; one intake task per assigned
//! partition takes records on the caller's runtime; a record that is not ready at its first poll
//! becomes a task there.

mod again;
mod attempt;
mod commit;
mod control;
mod epoch;
mod full;
mod house;
mod intake;
mod isolate;
mod pace;
mod report;
mod running;
mod second;
mod shared;

pub(crate) use self::epoch::Epoch;
pub(crate) use self::intake::Work;
pub use self::report::Report;
pub(crate) use self::running::start;
pub use self::running::{Monitor, Running};
