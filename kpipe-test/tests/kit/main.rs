//! The kit as a service's author uses it.

mod chaos;
mod crash;
mod real_work;
mod stream;
