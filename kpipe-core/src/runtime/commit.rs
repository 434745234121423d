//! Which offsets are due, what is on its way, and what the broker said to it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use futures::future::BoxFuture;

use super::epoch::Epoch;
use super::shared::Shared;
use crate::source::{CommitError, CommitErrorKind, CommitOffset, Source};

/// A commit that the broker has not answered yet.
pub(super) struct Commit {
    offsets: Vec<(Arc<Epoch>, i64)>,
    answer: BoxFuture<'static, Vec<Result<(), CommitError>>>,
}

impl Commit {
    /// Sends these offsets; with none there is nothing to send.
    pub(super) fn send(source: &dyn Source, offsets: Vec<(Arc<Epoch>, i64)>) -> Option<Self> {
        if offsets.is_empty() {
            return None;
        }
        let wanted = offsets
            .iter()
            .map(|(epoch, next)| CommitOffset { partition: epoch.id.clone(), next: *next })
            .collect();
        Some(Self { answer: source.commit(wanted), offsets })
    }

    /// Sends what is finished and not committed in these partitions. One in which nothing moved is
    /// left out.
    pub(super) fn send_due<'a>(
        source: &dyn Source,
        epochs: impl IntoIterator<Item = &'a Arc<Epoch>>,
    ) -> Option<Self> {
        let due = epochs
            .into_iter()
            .filter_map(|epoch| Some((epoch.clone(), epoch.partition.to_commit()?)))
            .collect();
        Self::send(source, due)
    }
}

/// The broker's answer; one entry per partition.
pub(super) struct Answer(Vec<(Arc<Epoch>, i64, Result<(), CommitError>)>);

impl Future for Commit {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let Self { offsets, answer } = &mut *self;
        answer.as_mut().poll(cx).map(|results| {
            debug_assert_eq!(offsets.len(), results.len(), "one answer per partition");
            let answers = offsets.drain(..).zip(results);
            Answer(answers.map(|((epoch, next), result)| (epoch, next, result)).collect())
        })
    }
}

impl Answer {
    /// Books the answer: what was acknowledged is clean for its epoch, everything else stays dirty
    /// and goes out with the next commit (C7).
    pub(super) fn book(self, shared: &Shared) {
        let mut acknowledged = false;
        for (epoch, next, result) in self.0 {
            match result {
                Ok(()) => {
                    acknowledged = true;
                    shared.acknowledged(&epoch, next);
                }
                Err(error) => {
                    shared.commit_failures.fetch_add(1, Relaxed);
                    report(&epoch, next, &error);
                }
            }
        }
        shared.commits.fetch_add(u64::from(acknowledged), Relaxed);
    }
}

fn report(epoch: &Epoch, next: i64, error: &CommitError) {
    let partition = &epoch.id;
    match error.kind {
        CommitErrorKind::Retry => {
            tracing::warn!(target: "kpipe", %partition, next, %error, "commit failed, to be repeated");
        }
        CommitErrorKind::Fenced => {
            tracing::warn!(
                target: "kpipe", %partition, next, %error,
                "commit refused: the partition is no longer this member's"
            );
        }
        CommitErrorKind::Permanent => {
            tracing::error!(target: "kpipe", %partition, next, %error, "commit refused");
        }
    }
}
