//! Where a partition starts; by the same rules as the Kafka source.

use kpipe_core::StartAt;

use super::log::Log;

/// Where a partition starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) offset: i64,
    /// Whether the group committed it; else the policy chose it.
    pub(super) committed: bool,
    /// Why the policy chose although the group had a position.
    pub(super) instead: Option<String>,
}

/// A commit below the log's start gives way to the policy. One beyond the log's end is taken as it is:
/// the fetch answers that it is out of range, the position is lost, and then (`reset`) the policy
/// decides.
pub(super) fn choose(
    committed: Option<i64>,
    log: Option<&Log>,
    reset: bool,
    start_at: StartAt,
) -> Result<Start, String> {
    let unknown = || "the partition does not exist".to_owned();
    let instead = match committed {
        Some(offset) if reset => Some(format!("the log does not go on at {offset} any more")),
        None if reset => Some("the log does not have the position any more".to_owned()),
        Some(offset) => match log {
            Some(log) if offset < log.start() => {
                let start = log.start();
                Some(format!(
                    "the committed offset {offset} is not in the log, which begins at {start}"
                ))
            }
            _ => return Ok(Start { offset, committed: true, instead: None }),
        },
        None => None,
    };
    let offset = match start_at {
        StartAt::Earliest => log.ok_or_else(unknown)?.start(),
        StartAt::Latest => log.ok_or_else(unknown)?.end(),
        StartAt::Fail => {
            let reason = instead.as_deref().unwrap_or("the group has committed nothing");
            return Err(format!("{reason}; start_at = fail"));
        }
    };
    Ok(Start { offset, committed: false, instead })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(
        committed: Option<i64>,
        reset: bool,
        start_at: StartAt,
    ) -> Result<(i64, bool), String> {
        let mut log = Log::default();
        log.skip(200);
        log.truncate_before(100);
        choose(committed, Some(&log), reset, start_at).map(|start| (start.offset, start.committed))
    }

    #[test]
    fn what_is_committed_counts_unless_the_log_lost_it() {
        for policy in [StartAt::Earliest, StartAt::Latest, StartAt::Fail] {
            for committed in [100, 200, 500] {
                assert_eq!(start(Some(committed), false, policy), Ok((committed, true)));
            }
        }
        for (committed, reset) in
            [(None, false), (None, true), (Some(99), false), (Some(150), true)]
        {
            assert_eq!(start(committed, reset, StartAt::Earliest), Ok((100, false)));
            assert_eq!(start(committed, reset, StartAt::Latest), Ok((200, false)));
            let refused = start(committed, reset, StartAt::Fail).unwrap_err();
            assert!(refused.ends_with("; start_at = fail"), "{refused}");
        }
        assert!(choose(None, None, false, StartAt::Earliest).is_err());
        assert!(choose(Some(7), None, false, StartAt::Earliest).is_ok(), "the fetch judges");
    }
}
