//! What an answer holds of what was asked for: no more than it may, and all that is there. They belong
//! to AnswersWellFormed, those about times to IndexAgreesWithLog.
//!
//! What is there is what others were told before the request could start: the high watermarks in
//! answers. The broker may know more.

use odradek_core::wire::messages::delete_records::{DeleteRecordsRequest, DeleteRecordsResponse};
use odradek_core::wire::messages::fetch::{FetchRequest, FetchResponse};
use odradek_core::wire::{ErrorCode, Records};

use super::connections::Exchange;
use super::long_poll::directory;
use super::model::{LogModel, ModelBatch};
use super::{Check, Oracle};
use crate::batch;

impl Oracle {
    /// A fetch gets no more bytes than it allows, but for the first batch of all (KIP-74).
    pub(super) fn check_size(&mut self, fetch: &FetchRequest, response: &FetchResponse) {
        let all = u64::try_from(fetch.max_bytes).unwrap_or(0);
        let mut before = 0;
        for topic in &response.responses {
            for partition in &topic.partitions {
                let Some(Records::Bytes(records)) = &partition.records else {
                    continue;
                };
                let own = fetch
                    .topics
                    .iter()
                    .filter(|asked| asked.topic == topic.topic && asked.topic_id == topic.topic_id)
                    .flat_map(|asked| &asked.partitions)
                    .filter(|asked| asked.partition == partition.partition_index)
                    .map(|asked| u64::try_from(asked.partition_max_bytes).unwrap_or(0))
                    .max();
                let left = own.unwrap_or(0).min(all.saturating_sub(before));
                let size = records.len() as u64;
                if size > left && (before > 0 || batch::all(records).nth(1).is_some()) {
                    self.violate(
                        Check::AnswersWellFormed,
                        format!(
                            "a fetch that allows {left} bytes more is answered with {size} from \
                             {}-{}, behind {before}",
                            topic.topic, partition.partition_index
                        ),
                    );
                }
                before += size;
            }
        }
    }

    /// What was told to be there can be deleted.
    pub(super) fn check_deletion(
        &mut self,
        exchange: &Exchange,
        request: &DeleteRecordsRequest,
        response: &DeleteRecordsResponse,
    ) {
        let asked = request
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)));
        let answered = response.topics.iter().flat_map(|topic| &topic.partitions);
        let refused: Vec<_> = asked
            .zip(answered)
            .filter(|(_, answer)| answer.error_code == ErrorCode::OFFSET_OUT_OF_RANGE)
            .map(|((topic, asked), _)| {
                let directory = directory(&topic.name, asked.partition_index);
                (directory, asked.offset)
            })
            .collect();
        for (directory, offset) in refused {
            let Some(log) = self.sound(&directory) else {
                continue;
            };
            let told = log.told_before(exchange);
            if (-1..=told).contains(&offset) {
                self.violate(
                    Check::AnswersWellFormed,
                    format!(
                        "{directory}: a deletion of what is below {offset} is refused as out of \
                         range, and the high watermark was {told} before (-1 asks for it)"
                    ),
                );
            }
        }
    }

    /// No record was found by time: none of those that were there is so new.
    pub(super) fn check_none_found(&mut self, exchange: &Exchange, directory: &str, time: i64) {
        let Some(log) = self.sound(directory) else {
            return;
        };
        let newer = log
            .there(exchange)
            .find(|(_, batch)| max_timestamp_of(batch) >= time)
            .map(|(base, _)| base);
        if let Some(base) = newer {
            self.violate(
                Check::IndexAgreesWithLog,
                format!(
                    "{directory}: nothing is found for timestamp {time}, and the batch at {base} has \
                     a record for it"
                ),
            );
        }
    }

    /// What was found is the record with the largest timestamp (KIP-734).
    pub(super) fn check_newest_found(&mut self, exchange: &Exchange, directory: &str, offset: i64) {
        let Some(log) = self.sound(directory) else {
            return;
        };
        let found = match log.batch_of(offset) {
            Some((_, batch)) if batch.cleaned.is_none() => max_timestamp_of(batch),
            Some(_) => return,
            // None is told while the newest one is not visible yet, as with Kafka.
            None if offset < 0 && log.end > log.told_before(exchange) => return,
            None if offset < 0 => -1,
            // It may be deleted by now.
            None => return,
        };
        let newer = log
            .there(exchange)
            .find(|(_, batch)| max_timestamp_of(batch) > found)
            .map(|(base, _)| base);
        if let Some(base) = newer {
            self.violate(
                Check::IndexAgreesWithLog,
                format!(
                    "{directory}: offset {offset} is found for the largest timestamp, and the batch \
                     at {base} has a larger one"
                ),
            );
        }
    }

    /// A log of which something can be said: it is not going away, and nothing damaged it.
    fn sound(&self, directory: &str) -> Option<&LogModel> {
        let log = self.models.get(directory)?;
        log.is_judged().then_some(log)
    }
}

impl LogModel {
    /// The high watermark that was told before a request could start.
    fn told_before(&self, exchange: &Exchange) -> i64 {
        let since = exchange.first_since.unwrap_or(exchange.arrived);
        self.high_watermarks.before(Some(since))
    }

    /// The batches that were there before a request could start, and that nobody was about to remove.
    fn there(&self, exchange: &Exchange) -> impl Iterator<Item = (i64, &ModelBatch)> {
        let from = self.log_start.max(self.log_start_asked).max(self.gaps_end);
        let told = self.told_before(exchange);
        self.batches
            .range(from..)
            .take_while(move |(_, batch)| batch.last_offset < told)
            .filter(|(_, batch)| batch.cleaned.is_none())
            .map(|(base, batch)| (*base, batch))
    }
}

fn max_timestamp_of(batch: &ModelBatch) -> i64 {
    batch::max_timestamp_of(&batch.bytes)
}
