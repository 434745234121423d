//! What is asserted of both brokers.

pub(crate) mod commits;
pub(crate) mod flow;
pub(crate) mod groups;
pub(crate) mod logs;
pub(crate) mod records;
pub(crate) mod revokes;
pub(crate) mod sessions;
pub(crate) mod start;
