//! One suite over two brokers: the in-memory one of `kpipe-test` and Apache Kafka. Each case is written
//! once and asserts the same of both; where they disagree, the in-memory one is wrong.
//!
//! `memory::…` runs on a paused clock, in milliseconds. `kafka::…` uses the broker at `KPIPE_KAFKA`,
//! else starts one through `scripts/kafka`; without Java and Maven, or with `KPIPE_SKIP_KAFKA=1`, it says
//! so and passes, unless `KPIPE_REQUIRE_KAFKA=1`.
#![cfg(not(loom))]

mod brokers;
mod cases;
mod cluster;
mod member;
mod service;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Long enough for anything that comes at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A name that nobody else has.
fn unique(kind: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("c-{kind}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Expands each case to a test of each broker, and those that a rebalance takes part in to one of each
/// protocol.
macro_rules! suite {
    ($($area:ident {
        once: [$($case:ident),* $(,)?],
        by_protocol: [$($each:ident),* $(,)?] $(,)?
    })*) => {
        mod memory {
            use crate::brokers::Memory;
            use crate::cluster::Protocol;

            $(mod $area {
                use super::*;

                $(#[tokio::test(start_paused = true)]
                async fn $case() {
                    crate::cases::$area::$case(Memory::new(Protocol::Eager)).await;
                })*
                $(mod $each {
                    use super::*;

                    suite!(@memory $area $each eager Eager);
                    suite!(@memory $area $each cooperative Cooperative);
                    suite!(@memory $area $each incremental Incremental);
                })*
            })*
        }

        #[cfg(feature = "kafka")]
        mod kafka {
            use crate::brokers::Apache;
            use crate::cluster::Protocol;

            $(mod $area {
                use super::*;

                $(#[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    let Some(cluster) = Apache::get(Protocol::Eager) else { return };
                    crate::cases::$area::$case(cluster).await;
                })*
                $(mod $each {
                    use super::*;

                    suite!(@kafka $area $each eager Eager);
                    suite!(@kafka $area $each cooperative Cooperative);
                    suite!(@kafka $area $each incremental Incremental);
                })*
            })*
        }
    };
    (@memory $area:ident $case:ident $name:ident $protocol:ident) => {
        #[tokio::test(start_paused = true)]
        async fn $name() {
            crate::cases::$area::$case(Memory::new(Protocol::$protocol)).await;
        }
    };
    (@kafka $area:ident $case:ident $name:ident $protocol:ident) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let Some(cluster) = Apache::get(Protocol::$protocol) else { return };
            crate::cases::$area::$case(cluster).await;
        }
    };
}

suite! {
    start {
        once: [
            earliest_is_the_first_record_that_the_log_holds,
            latest_is_the_end_of_the_log,
            latest_is_committed_at_once,
            fail_reports_the_partition_and_goes_on_with_the_others,
            a_partition_that_failed_is_assigned_again,
            what_is_committed_is_resumed,
            a_position_at_either_end_of_the_log_is_in_it,
            a_position_below_the_log_gives_way_to_the_policy,
            a_position_beyond_the_log_is_lost_and_gives_way_to_the_policy,
            a_topic_that_does_not_exist_is_named,
        ],
        by_protocol: [],
    }
    records {
        once: [
            a_record_arrives_whole,
            times_are_those_of_the_producer,
            offsets_count_within_a_partition,
            a_key_always_goes_to_the_same_partition,
            what_the_broker_does_not_take_is_refused,
        ],
        by_protocol: [],
    }
    groups {
        once: [
            a_member_without_a_share_waits_for_one,
            groups_know_nothing_of_each_other,
            how_long_the_group_waits_is_known,
            new_partitions_are_dealt_out,
            who_is_dropped_leaves_all_the_same,
        ],
        by_protocol: [
            each_partition_has_one_owner,
            members_get_only_what_they_subscribe_to,
            a_joiner_takes_its_share_with_work_in_flight,
            who_leaves_is_taken_over_from,
            two_topics_of_one_partition_are_dealt_out,
            a_close_hands_on_at_once,
        ],
    }
    revokes {
        once: [],
        by_protocol: [
            nothing_is_handed_on_before_it_is_given_back,
            nothing_is_delivered_while_something_is_to_be_given_back,
            who_does_not_give_back_in_time_is_out,
            who_closes_owes_nothing,
        ],
    }
    sessions {
        once: [
            a_dead_process_loses_its_partitions_with_its_session,
            who_comes_back_after_its_session_changes_nothing_and_joins_again,
        ],
        by_protocol: [],
    }
    commits {
        once: [
            an_outsider_commits_up_to_4096_bytes_of_metadata,
            an_outsider_commits_only_while_the_group_is_empty,
            a_commit_may_go_back,
            what_was_finished_is_not_handled_again_after_a_restart,
            a_commit_in_a_deleted_topic_fails_for_that_alone,
            a_failed_record_is_where_the_next_member_begins,
            a_deleted_topic_takes_its_committed_offsets_along,
        ],
        by_protocol: [
            whoever_is_a_member_commits_any_partition,
        ],
    }
    logs {
        once: [
            a_committed_transaction_leaves_an_offset_without_a_record,
            an_aborted_transaction_leaves_offsets_without_records,
            records_deleted_from_under_a_member_are_skipped,
            records_deleted_below_the_position_cost_nothing,
            a_topic_made_anew_is_read_from_its_beginning,
            a_topic_that_is_deleted_is_reported_and_the_others_go_on,
            the_end_of_the_log_and_the_lag_are_the_brokers,
        ],
        by_protocol: [],
    }
    flow {
        once: [
            what_is_held_back_is_not_fetched_twice,
            a_shutdown_commits_and_leaves,
        ],
        by_protocol: [],
    }
}
