/// Which records may run at the same time (G2).
///
/// An order is kept through failures: a record that failed and stays keeps what it stands before
/// waiting, which under [`Partition`](Self::Partition) is the rest of its partition and under
/// [`Sequential`](Self::Sequential) everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Ordering {
    /// All of them.
    Parallel,
    /// One at a time for each topic, partition and key, in offset order. The default.
    #[default]
    Key,
    /// One at a time in each partition, in offset order.
    Partition,
    /// One at a time over the whole consumer; in offset order within each partition.
    Sequential,
}

/// How records without a key are ordered under [`Ordering::Key`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum NullKeys {
    /// Not at all: no key, no order (C25). The default.
    #[default]
    Unordered,
    /// As if they had one key: one at a time in each partition, in offset order.
    Serial,
}
