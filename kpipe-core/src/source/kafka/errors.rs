//! What librdkafka's error codes mean for a partition, a commit and the start.

use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};

use crate::source::CommitErrorKind;

/// What an error on a partition's queue means for what follows it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    None,
    /// The client goes on by itself.
    Passing,
    /// The position is gone. With `reset` the log does not have it, and the starting policy decides;
    /// without, what is committed is still good.
    Position {
        /// Whether the policy decides.
        reset: bool,
    },
    /// Records were left out: nothing that follows may be handed on, or they would be committed
    /// unread.
    Hole,
}

/// Sorts an error that arrived among a partition's records.
pub(super) fn on_partition(code: i32, text: &str) -> Trouble {
    match known(code) {
        Some(Code::PartitionEOF) => Trouble::None,
        // The log was cut below the position, for instance by an unclean leader election: what the
        // group committed may still be in it. librdkafka tells the two apart in the text only.
        Some(Code::AutoOffsetReset) if text.contains(&describe(Code::LogTruncation as i32)) => {
            Trouble::Position { reset: false }
        }
        Some(Code::LogTruncation) => Trouble::Position { reset: false },
        Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => Trouble::Position { reset: true },
        Some(
            Code::BadMessage
            | Code::BadCompression
            | Code::NotImplemented
            | Code::CriticalSystemResource,
        ) => Trouble::Hole,
        _ => Trouble::Passing,
    }
}

/// Adds what would help to the text of an error on a partition.
pub(super) fn explain(text: &str) -> String {
    // The codec's number in a batch's attributes.
    if text.contains("codec 0x4") && !cfg!(feature = "zstd") {
        return format!("{text}: enable the feature `zstd` of kpipe-core");
    }
    text.to_owned()
}

/// Sorts the answer to a commit; `None` is success.
pub(super) fn on_commit(code: i32) -> Option<CommitErrorKind> {
    if code == 0 {
        return None;
    }
    match known(code) {
        // Nothing in the list needed to be stored.
        Some(Code::NoOffset) => None,
        Some(
            Code::UnknownMemberId
            | Code::IllegalGeneration
            | Code::FencedMemberEpoch
            | Code::FencedInstanceId
            | Code::Fenced
            | Code::Fatal,
        ) => Some(CommitErrorKind::Fenced),
        Some(
            Code::OffsetMetadataTooLarge
            | Code::InvalidCommitOffsetSize
            | Code::GroupAuthorizationFailed
            | Code::TopicAuthorizationFailed
            | Code::InvalidGroupId
            | Code::GroupIdNotFound
            | Code::InvalidArgument
            | Code::UnknownGroup
            | Code::UnsupportedVersion
            | Code::UnsupportedFeature,
        ) => Some(CommitErrorKind::Permanent),
        // A stale member epoch is among them: the group moved on and this member has not heard of it
        // yet. It is told by the next heartbeat, and only then is it known what it has lost.
        _ => Some(CommitErrorKind::Retry),
    }
}

/// Whether an error belongs to one partition of a commit. librdkafka puts it on the whole list.
pub(super) fn concerns_one_partition(code: i32) -> bool {
    matches!(
        known(code),
        Some(
            Code::OffsetMetadataTooLarge
                | Code::InvalidCommitOffsetSize
                | Code::TopicAuthorizationFailed
                | Code::UnknownTopicOrPartition
        )
    )
}

/// Whether the brokers refused the credentials or the rights.
pub(super) fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::UnsupportedSASLMechanism
    )
}

/// What to change if the group refused this member for its settings. The client would ask again with
/// the same ones for ever.
pub(super) fn refused_settings(code: Code) -> Option<&'static str> {
    match code {
        Code::InvalidSessionTimeout => Some(
            "session.timeout.ms must lie between the brokers' group.min.session.timeout.ms (6000 by \
             default) and group.max.session.timeout.ms (1800000)",
        ),
        Code::InvalidGroupId => Some("the brokers do not accept the group's id"),
        _ => None,
    }
}

/// librdkafka's words for a code.
pub(super) fn describe(code: i32) -> String {
    known(code).map_or_else(|| format!("error {code}"), |code| code.to_string())
}

fn known(code: i32) -> Option<Code> {
    RDKafkaRespErr::try_from(code).ok().map(Code::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_position_is_told_apart_from_a_cut_log() {
        let reset = Code::AutoOffsetReset as i32;
        let out_of_range = "fetch failed: Broker: Offset out of range (broker 1)";
        assert_eq!(on_partition(reset, out_of_range), Trouble::Position { reset: true });
        let cut = format!("detected at offset 7: {}", describe(Code::LogTruncation as i32));
        assert_eq!(on_partition(reset, &cut), Trouble::Position { reset: false });
    }

    #[test]
    fn only_errors_that_leave_records_out_stop_a_partition() {
        assert_eq!(on_partition(Code::BadMessage as i32, ""), Trouble::Hole);
        assert_eq!(on_partition(Code::NotImplemented as i32, ""), Trouble::Hole);
        assert_eq!(on_partition(Code::TopicAuthorizationFailed as i32, ""), Trouble::Passing);
        assert_eq!(on_partition(Code::PartitionEOF as i32, ""), Trouble::None);
        assert_eq!(on_partition(9_999, ""), Trouble::Passing, "a code of a newer broker");
    }

    #[test]
    fn commit_answers_say_what_the_caller_can_do() {
        use CommitErrorKind::{Fenced, Permanent, Retry};
        for (code, expected) in [
            (Code::NoError, None),
            (Code::NoOffset, None),
            (Code::UnknownMemberId, Some(Fenced)),
            (Code::IllegalGeneration, Some(Fenced)),
            (Code::FencedMemberEpoch, Some(Fenced)),
            (Code::FencedInstanceId, Some(Fenced)),
            (Code::RebalanceInProgress, Some(Retry)),
            (Code::NotCoordinator, Some(Retry)),
            (Code::CoordinatorLoadInProgress, Some(Retry)),
            (Code::WaitingForCoordinator, Some(Retry)),
            (Code::BrokerTransportFailure, Some(Retry)),
            (Code::StaleMemberEpoch, Some(Retry)),
            (Code::OffsetMetadataTooLarge, Some(Permanent)),
            (Code::GroupAuthorizationFailed, Some(Permanent)),
        ] {
            assert_eq!(on_commit(code as i32), expected, "{code:?}");
        }
        assert_eq!(on_commit(9_999), Some(Retry), "a code of a newer broker");
    }
}
