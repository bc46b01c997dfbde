//! WakesOnMinBytesOrDeadline and NoLostWakeup.
//!
//! A fetch that is first on its connection waits for nothing but bytes and its deadline. How many
//! bytes there are is taken from what others were told: what was acknowledged, and the high
//! watermarks in answers. That is less than the broker knows, so a fetch that still waits at the
//! end of a step although that much is there was forgotten.

use std::collections::BTreeMap;

use odradek_core::ids::{ConnectionId, TopicId};
use odradek_core::time::Mono;
use odradek_core::wire::messages::fetch::{FetchRequest, FetchResponse};
use odradek_core::wire::{Request, RequestBody};

use super::connections::Exchange;
use super::model::Models;
use super::{Check, Mark, Oracle};

/// How much later than its deadline a fetch may be answered: the host's timers are late, and a read
/// may be under way.
const SLACK_MS: u64 = 20;

/// What a fetch waits for.
#[derive(Debug)]
struct Wait {
    connection: ConnectionId,
    since: Mono,
    deadline: Mono,
    min_bytes: u64,
    there: u64,
    wants: String,
}

impl Oracle {
    /// A step is over, all its effects are out. `reads_under_way`: a fetch may wait for one of
    /// them.
    pub fn step_over(&mut self, reads_under_way: bool) {
        // A broker that stops begins nothing new; the stop has a bound of its own.
        let excused = reads_under_way || self.is_stopping;
        let mut waits = Vec::new();
        for (connection, exchange) in self.exchanges.fetches() {
            exchange.waited = true;
            let (Some(since), Some(Request { header, body })) =
                (exchange.first_since, &exchange.request)
            else {
                continue;
            };
            let RequestBody::Fetch(fetch) = body else {
                continue;
            };
            let deadline = deadline_of(since, fetch);
            let is_late = self.now > deadline.max(self.paused_until).plus_ms(SLACK_MS);
            // What was too little stays too little until somebody is told more.
            let is_known = exchange.too_little_at == Some(self.told);
            if excused || (is_known && !is_late) {
                continue;
            }
            let there = bytes_there(
                &self.models,
                &self.topic_ids,
                fetch,
                header.api_version >= 13,
            );
            let min_bytes = wanted_bytes(fetch);
            if there < min_bytes && !is_late {
                exchange.too_little_at = Some(self.told);
                continue;
            }
            waits.push(Wait {
                connection,
                since,
                deadline,
                min_bytes,
                there,
                wants: describe(fetch),
            });
        }
        for wait in waits {
            let Wait {
                connection,
                since,
                deadline,
                min_bytes,
                there,
                wants,
            } = wait;
            if there >= min_bytes {
                self.violate(
                    Check::NoLostWakeup,
                    format!(
                        "the fetch on {connection} waits since {since} for {min_bytes} bytes, and \
                         {there} bytes of what was acknowledged or shown are there: {wants}"
                    ),
                );
            } else {
                self.violate(
                    Check::WakesOnMinBytesOrDeadline,
                    format!(
                        "the fetch on {connection} waits since {since}, and its deadline was \
                         {deadline}: {wants}"
                    ),
                );
            }
        }
    }

    /// A fetch is answered. Whether that was early without a reason.
    pub(super) fn check_wake(
        &mut self,
        exchange: &Exchange,
        fetch: &FetchRequest,
        response: &FetchResponse,
        by_id: bool,
    ) {
        let Some(since) = exchange.first_since else {
            return;
        };
        let partitions = || {
            response
                .responses
                .iter()
                .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)))
        };
        let bytes: u64 = partitions()
            .filter_map(|(_, p)| p.records.as_ref())
            .map(|records| records.len() as u64)
            .sum();
        if bytes > 0 {
            self.full_fetches += 1;
        }
        let deadline = deadline_of(since, fetch);
        if exchange.waited && self.now >= deadline {
            self.mark(Mark::FetchEndedByDeadline);
        } else if exchange.waited && bytes > 0 {
            self.mark(Mark::FetchWokenByBytes);
        }
        let there = bytes_there(&self.models, &self.topic_ids, fetch, by_id);
        // A broker that stops answers everybody with what there is.
        if self.is_stopping || self.now >= deadline || bytes + there >= wanted_bytes(fetch) {
            return;
        }
        let failed = response.error_code.is_error()
            || partitions().any(|(_, p)| p.error_code.is_error() || p.diverging_epoch.epoch >= 0);
        // A reader that is behind is not made to wait: its offset lies on an older segment.
        let behind = fetch.topics.iter().any(|topic| {
            let name = if by_id {
                self.topic_ids.get(&topic.topic_id).map(String::as_str)
            } else {
                Some(topic.topic.as_str())
            };
            let Some(name) = name else { return true };
            topic.partitions.iter().any(|partition| {
                let Some(log) = self.models.get(&directory(name, partition.partition)) else {
                    return true;
                };
                match log.batch_of(partition.fetch_offset) {
                    Some((_, batch)) => Some(&batch.segment) != log.newest_segment(),
                    None => partition.fetch_offset < log.end,
                }
            })
        });
        if !failed && !behind {
            self.violate(
                Check::WakesOnMinBytesOrDeadline,
                format!(
                    "a fetch that came at {since} and may wait until {deadline} for {} bytes is \
                     answered with {bytes}, and {there} are there: {}",
                    wanted_bytes(fetch),
                    describe(fetch)
                ),
            );
        }
    }

    /// The topic of an id, if an answer has told it.
    pub(super) fn topic_name<'a>(
        &'a self,
        name: &'a str,
        id: TopicId,
        by_id: bool,
    ) -> Option<&'a str> {
        if by_id {
            self.topic_ids.get(&id).map(String::as_str)
        } else {
            Some(name)
        }
    }
}

/// How many bytes there are for a fetch, each partition up to its own maximum, as far as others were
/// told of them.
fn bytes_there(
    models: &Models,
    ids: &BTreeMap<TopicId, String>,
    fetch: &FetchRequest,
    by_id: bool,
) -> u64 {
    fetch
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)))
        .filter_map(|(topic, partition)| {
            let name = if by_id {
                ids.get(&topic.topic_id)?.as_str()
            } else {
                topic.topic.as_str()
            };
            let log = models.get(&directory(name, partition.partition))?;
            if log.may_vanish {
                return None;
            }
            let own = u64::try_from(partition.partition_max_bytes).unwrap_or(0);
            Some(log.bytes_between(partition.fetch_offset, log.promised_end(), own))
        })
        .sum()
}

fn deadline_of(since: Mono, fetch: &FetchRequest) -> Mono {
    since.plus_ms(u64::try_from(fetch.max_wait_ms).unwrap_or(0))
}

/// What a fetch asks for, in words.
fn describe(fetch: &FetchRequest) -> String {
    let partitions: Vec<String> = fetch
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)))
        .map(|(topic, p)| {
            format!(
                "{}-{} from {} at most {}",
                topic.topic, p.partition, p.fetch_offset, p.partition_max_bytes
            )
        })
        .collect();
    format!(
        "min {} max {} of {}",
        fetch.min_bytes,
        fetch.max_bytes,
        partitions.join(", ")
    )
}

/// What it takes to wake a fetch: no more than it may be given, and nothing if it asks for nothing.
fn wanted_bytes(fetch: &FetchRequest) -> u64 {
    if fetch.topics.iter().all(|topic| topic.partitions.is_empty()) {
        return 0;
    }
    u64::try_from(fetch.min_bytes.min(fetch.max_bytes)).unwrap_or(0)
}

/// The directory of a partition.
pub(super) fn directory(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}
