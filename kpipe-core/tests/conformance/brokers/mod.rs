//! The clusters that the suite runs over.

#[cfg(feature = "kafka")]
mod apache;
mod memory;

#[cfg(feature = "kafka")]
pub(crate) use self::apache::Apache;
pub(crate) use self::memory::Memory;
