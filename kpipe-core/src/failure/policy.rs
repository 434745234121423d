/// What becomes of a record whose attempt failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum OnFailure {
    /// It stays: nothing at or beyond it is committed, the records behind it in its order wait, and
    /// it shows in the statistics until the partition moves or the consumer restarts, which
    /// delivers it again. The default, because nothing is lost by it (G1).
    ///
    /// Records that stay, and those that wait behind them, count against
    /// [`max_held`](crate::Consumer::max_held): once they fill it, the consumer takes nothing more
    /// from any partition until it is restarted. Likewise a partition stops once
    /// [`max_finished_beyond`](crate::Consumer::max_finished_beyond) records are finished beyond
    /// the one that failed. Both are logged as a warning and show in the statistics
    /// ([`Stats::full`](crate::Stats::full), [`PartitionStats::full`](crate::PartitionStats::full)).
    ///
    /// To get past one record that can never be handled, let the handler recognise it (by its
    /// [`id`](crate::Record::id), or by what is wrong with it) and return `Ok`, and restart.
    #[default]
    Hold,
    /// It counts as dropped, is logged as an error, and the partition moves on. Chosen by name
    /// because the record is then gone.
    Drop,
}
