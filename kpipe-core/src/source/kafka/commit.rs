//! Commits: sent at once, answered on a queue and a thread of their own.
//!
//! librdkafka reports nothing of an asynchronous commit and waits without a limit in a synchronous
//! one (as long as the session when the coordinator is away), so neither will do.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::errors;
use super::ffi::{Client, CommitAnswer};
use crate::source::{CommitError, CommitErrorKind, CommitOffset};
use crate::sync::Mutex;

/// One answer for each partition.
pub(super) type Answers = Vec<Result<(), CommitError>>;

/// How long a look at the queue of answers lasts. A stop ends it at once.
const LOOK: Duration = Duration::from_secs(1);

/// Commits that wait for an answer.
#[derive(Default)]
pub(super) struct Commits {
    waiting: Mutex<HashMap<usize, Part>>,
    next_token: AtomicUsize,
    stopped: AtomicBool,
}

/// One request to the broker: a whole commit, or one partition of it.
struct Part {
    whole: Arc<Mutex<Whole>>,
    /// Which of the whole's offsets.
    which: Vec<usize>,
}

/// A commit as it was asked for.
struct Whole {
    offsets: Vec<CommitOffset>,
    answers: Vec<Option<Result<(), CommitError>>>,
    reply: Option<oneshot::Sender<Answers>>,
}

impl Commits {
    /// Sends a commit. Its answer comes when the broker's does.
    pub(super) fn send(
        &self,
        client: &Client,
        offsets: Vec<CommitOffset>,
    ) -> oneshot::Receiver<Answers> {
        let (reply, answer) = oneshot::channel();
        let which: Vec<_> = (0..offsets.len()).collect();
        let answers = offsets.iter().map(|_| None).collect();
        let whole = Whole { offsets, answers, reply: Some(reply) };
        self.send_part(client, Part { whole: Arc::new(Mutex::new(whole)), which });
        answer
    }

    /// The body of the thread `kpipe-commit`.
    pub(super) fn run(&self, client: &Client) {
        while !self.stopped.load(Ordering::Acquire) {
            if let Some(answer) = client.next_commit_answer(LOOK) {
                self.answered(client, answer);
            }
        }
    }

    /// Ends the thread. What still waits is answered: the outcome is unknown.
    pub(super) fn stop(&self, client: &Client) {
        self.stopped.store(true, Ordering::Release);
        client.wake_commits();
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for part in waiting.into_values() {
            part.fail_all(CommitErrorKind::Retry, "the client closed before the broker answered");
        }
    }

    fn send_part(&self, client: &Client, part: Part) {
        if part.which.is_empty() || self.stopped.load(Ordering::Acquire) {
            part.fail_all(CommitErrorKind::Retry, "the client is closed");
            return;
        }
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let list = part.list();
        // Before it is sent, because the answer may come before the call returns.
        self.waiting.lock().insert(token, part);
        let sent = match list {
            Ok(list) => client.send_commit(&list, token).map_err(|code| {
                let kind = errors::on_commit(code).unwrap_or(CommitErrorKind::Retry);
                (kind, errors::describe(code))
            }),
            Err(error) => Err((CommitErrorKind::Permanent, error.to_string())),
        };
        if let Err((kind, text)) = sent
            && let Some(part) = self.waiting.lock().remove(&token)
        {
            part.fail_all(kind, &text);
        }
    }

    fn answered(&self, client: &Client, answer: CommitAnswer) {
        let Some(part) = self.waiting.lock().remove(&answer.token) else { return };
        let codes: HashMap<(&str, i32), i32> = answer
            .partitions
            .iter()
            .map(|(topic, partition, code)| ((topic.as_str(), *partition), *code))
            .collect();
        let single = part.which.len() == 1;
        let mut alone = Vec::new();
        {
            let mut whole = part.whole.lock();
            for &at in &part.which {
                let place = &whole.offsets[at].partition;
                let code = codes.get(&(&*place.topic, place.partition)).copied();
                match code {
                    // librdkafka copies one partition's error to those that have none, although they
                    // were committed. Asked alone, each answers for itself.
                    Some(code) if !single && errors::concerns_one_partition(code) => alone.push(at),
                    Some(code) => whole.answers[at] = Some(outcome(code)),
                    None => {
                        let text = "the answer does not mention this partition";
                        whole.answers[at] = Some(failure(CommitErrorKind::Retry, text));
                    }
                }
            }
            whole.reply_if_complete();
        }
        for at in alone {
            self.send_part(client, Part { whole: part.whole.clone(), which: vec![at] });
        }
    }
}

impl Part {
    fn list(&self) -> rdkafka::error::KafkaResult<TopicPartitionList> {
        let whole = self.whole.lock();
        let mut list = TopicPartitionList::with_capacity(self.which.len());
        for &at in &self.which {
            let CommitOffset { partition, next, .. } = &whole.offsets[at];
            list.add_partition(&partition.topic, partition.partition)
                .set_offset(Offset::Offset(*next))?;
        }
        Ok(list)
    }

    fn fail_all(&self, kind: CommitErrorKind, text: &str) {
        let mut whole = self.whole.lock();
        for &at in &self.which {
            whole.answers[at] = Some(failure(kind, text));
        }
        whole.reply_if_complete();
    }
}

impl Whole {
    fn reply_if_complete(&mut self) {
        if self.answers.iter().all(Option::is_some)
            && let Some(reply) = self.reply.take()
        {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(self.answers.drain(..).flatten().collect());
        }
    }
}

fn outcome(code: i32) -> Result<(), CommitError> {
    match errors::on_commit(code) {
        None => Ok(()),
        Some(kind) => failure(kind, &errors::describe(code)),
    }
}

fn failure(kind: CommitErrorKind, text: &str) -> Result<(), CommitError> {
    Err(CommitError { kind, message: text.to_owned() })
}
