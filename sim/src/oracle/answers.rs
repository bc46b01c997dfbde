//! Takes the broker's answers apart and hands each fact to the checks it concerns.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::wire::frame::decode_response;
use odradek_core::wire::messages::create_topics::{CreateTopicsRequest, CreateTopicsResponse};
use odradek_core::wire::messages::delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
use odradek_core::wire::messages::fetch::{FetchRequest, FetchResponse};
use odradek_core::wire::messages::list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
use odradek_core::wire::messages::produce::{ProduceRequest, ProduceResponse};
use odradek_core::wire::{ApiKey, ErrorCode, Records, Request, RequestBody, ResponseBody};

use super::codes;
use super::connections::Exchange;
use super::long_poll::directory;
use super::{Check, Mark, Oracle};
use crate::disk::Disk;

/// ListOffsets asks for the record with the largest timestamp (KIP-734).
const MAX_TIMESTAMP: i64 = -3;

impl Oracle {
    /// What the request that just came asks for may come true at any time from now on.
    pub(super) fn note_intentions(&mut self, connection: ConnectionId) {
        // What is asked all the time changes nothing, and need not be copied.
        let may_change = |request: &&Request| {
            !matches!(
                request.body,
                RequestBody::Produce(_) | RequestBody::Fetch(_)
            )
        };
        let request = self.exchanges.last(connection).filter(may_change);
        let request = request.map(|request| request.body.clone());
        if let Some(request) = &request {
            self.note_config_changes(request);
        }
        match request {
            Some(RequestBody::DeleteTopics(request)) => {
                let named = request.topics.iter().filter_map(|topic| match &topic.name {
                    Some(name) => Some(name.to_string()),
                    None => self.topic_ids.get(&topic.topic_id).cloned(),
                });
                let names: Vec<String> = named
                    .chain(request.topic_names.iter().map(ToString::to_string))
                    .collect();
                for name in names {
                    self.created.remove(&name);
                    let prefix = format!("{name}-");
                    for log in self.models.all_mut() {
                        let index = log.directory.strip_prefix(&prefix);
                        if index.is_some_and(|index| index.parse::<i32>().is_ok()) {
                            log.may_vanish = true;
                        }
                    }
                }
            }
            Some(RequestBody::DeleteRecords(request)) => {
                for topic in &request.topics {
                    for partition in &topic.partitions {
                        let name = directory(&topic.name, partition.partition_index);
                        if let Some(log) = self.models.get_mut(&name) {
                            let asked = match partition.offset {
                                // The high watermark, whatever it will be.
                                -1 => i64::MAX,
                                offset => offset,
                            };
                            log.log_start_asked = log.log_start_asked.max(asked);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// The broker answers the next request of a connection. `bytes` is the whole frame with file
    /// ranges read as they are now; empty for a produce with acks=0; `None` if a range is short.
    pub fn answered(&mut self, connection: ConnectionId, bytes: Option<&Bytes>, disk: &Disk) {
        let Some(exchange) = self.exchanges.answer(self.now, connection) else {
            return self.violate(
                Check::AnswersWellFormed,
                format!("an answer on {connection}, where nothing was asked"),
            );
        };
        let Some(Request { header, body }) = &exchange.request else {
            return;
        };
        let unanswered = matches!(body, RequestBody::Produce(produce) if produce.acks == 0);
        let Some(bytes) = bytes else {
            return self.violate(
                Check::AnswersWellFormed,
                format!("{connection}: the answer names a range that its file does not have"),
            );
        };
        if bytes.is_empty() {
            if !unanswered {
                self.violate(
                    Check::AnswersWellFormed,
                    format!("{connection}: {header} is not answered"),
                );
            }
            return;
        }
        let Some(api) = ApiKey::from_key(header.api_key) else {
            return;
        };
        let frame = bytes.slice(bytes.len().min(4)..);
        let (correlation_id, response) = match decode_response(api, header.api_version, frame) {
            Ok(decoded) => decoded,
            Err(error) => {
                return self.violate(
                    Check::AnswersWellFormed,
                    format!("{connection}: the answer to {header} does not decode: {error:?}"),
                );
            }
        };
        if correlation_id != header.correlation_id {
            self.violate(
                Check::AnswersWellFormed,
                format!("{connection}: {header} is answered as number {correlation_id}"),
            );
        }
        codes::count(&mut self.codes, api, &response);
        self.judge(&exchange, header.api_version, body, &response, disk);
    }

    fn judge(
        &mut self,
        exchange: &Exchange,
        version: i16,
        request: &RequestBody,
        response: &ResponseBody,
        disk: &Disk,
    ) {
        if !matches!(
            response,
            ResponseBody::Produce(_) | ResponseBody::Fetch(_) | ResponseBody::ListOffsets(_)
        ) {
            // Names of topics, and which topics there are.
            self.told += 1;
        }
        match (request, response) {
            (RequestBody::Produce(request), ResponseBody::Produce(response)) => {
                self.judge_produce(exchange, version, request, response, disk);
            }
            (RequestBody::Fetch(request), ResponseBody::Fetch(response)) => {
                self.judge_fetch(exchange, version, request, response, disk);
                self.check_wake(exchange, request, response, version >= 13);
            }
            (RequestBody::ListOffsets(request), ResponseBody::ListOffsets(response)) => {
                self.judge_list_offsets(exchange, request, response, disk);
            }
            (RequestBody::CreateTopics(request), ResponseBody::CreateTopics(response)) => {
                self.judge_create(request, response);
            }
            (RequestBody::DeleteTopics(request), ResponseBody::DeleteTopics(response)) => {
                self.judge_delete(request, response);
            }
            (_, ResponseBody::InitProducerId(response)) => self.producer_id_told(response),
            (_, ResponseBody::Metadata(response)) => {
                for topic in &response.topics {
                    if let Some(name) = &topic.name
                        && !topic.error_code.is_error()
                    {
                        self.topic_ids.insert(topic.topic_id, name.to_string());
                    }
                }
            }
            (RequestBody::DeleteRecords(request), ResponseBody::DeleteRecords(response)) => {
                self.check_deletion(exchange, request, response);
                for topic in &response.topics {
                    for partition in &topic.partitions {
                        if !partition.error_code.is_error() {
                            let name = directory(&topic.name, partition.partition_index);
                            self.showed_log_start(&name, None, partition.low_watermark);
                        }
                    }
                }
            }
            _ => {
                self.judge_groups(exchange, version, request, response);
                self.judge_admin(request, response, disk);
            }
        }
    }

    fn judge_produce(
        &mut self,
        exchange: &Exchange,
        version: i16,
        request: &ProduceRequest,
        response: &ProduceResponse,
        disk: &Disk,
    ) {
        let asked = request.topic_data.iter().flat_map(|topic| {
            let name = self
                .topic_name(&topic.name, topic.topic_id, version >= 13)
                .map(str::to_owned);
            topic.partition_data.iter().map(move |p| (name.clone(), p))
        });
        let asked: Vec<_> = asked.collect();
        let answered: Vec<_> = response
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses)
            .collect();
        if asked.len() != answered.len() {
            return self.violate(
                Check::AnswersWellFormed,
                format!(
                    "a produce to {} partitions is answered for {}",
                    asked.len(),
                    answered.len()
                ),
            );
        }
        for ((name, asked), answer) in asked.into_iter().zip(answered) {
            match answer.error_code {
                ErrorCode::NONE => {}
                ErrorCode::KAFKA_STORAGE_ERROR => {
                    self.mark(Mark::StorageErrorAnswered);
                    if self.damages.read_only {
                        self.mark(Mark::RefusedWhileReadOnly);
                    }
                }
                ErrorCode::REQUEST_TIMED_OUT => self.mark(Mark::ProduceTimedOut),
                _ => {}
            }
            let (Some(name), Some(Records::Bytes(sent))) = (name, &asked.records) else {
                continue;
            };
            let partition = directory(&name, asked.index);
            if self
                .models
                .get(&partition)
                .is_some_and(|log| !log.may_vanish)
            {
                let error = answer.error_code;
                let arrived = exchange.arrived;
                self.producer_answered(&partition, arrived, sent, error, answer.base_offset);
            }
            if !answer.error_code.is_error() {
                let directory = directory(&name, asked.index);
                if self
                    .models
                    .get(&directory)
                    .is_some_and(|log| log.may_vanish)
                {
                    continue;
                }
                self.acked(&directory, answer.base_offset, sent, disk);
                if version >= 5 {
                    self.appended_above(&directory, answer.log_start_offset);
                }
            }
        }
    }

    fn judge_fetch(
        &mut self,
        exchange: &Exchange,
        version: i16,
        request: &FetchRequest,
        response: &FetchResponse,
        disk: &Disk,
    ) {
        self.check_size(request, response);
        for topic in &response.responses {
            let Some(name) = self
                .topic_name(&topic.topic, topic.topic_id, version >= 13)
                .map(str::to_owned)
            else {
                continue;
            };
            for partition in &topic.partitions {
                let directory = directory(&name, partition.partition_index);
                let offset = request
                    .topics
                    .iter()
                    .filter(|t| t.topic == topic.topic && t.topic_id == topic.topic_id)
                    .flat_map(|t| &t.partitions)
                    .find(|p| p.partition == partition.partition_index)
                    .map(|p| p.fetch_offset);
                let Some(offset) = offset else {
                    self.violate(
                        Check::AnswersWellFormed,
                        format!("{directory} is answered and was not asked for"),
                    );
                    continue;
                };
                if partition.error_code == ErrorCode::KAFKA_STORAGE_ERROR {
                    self.read_refused(&directory);
                }
                if partition.error_code.is_error()
                    || self.models.get(&directory).is_none_or(|log| log.may_vanish)
                {
                    continue;
                }
                let since = exchange.first_since;
                self.showed_high_watermark(&directory, since, partition.high_watermark, disk);
                if version >= 5 {
                    self.showed_log_start(&directory, since, partition.log_start_offset);
                }
                if let Some(Records::Bytes(records)) = &partition.records {
                    self.check_served(&directory, offset, records, partition.high_watermark);
                }
            }
        }
    }

    fn judge_list_offsets(
        &mut self,
        exchange: &Exchange,
        request: &ListOffsetsRequest,
        response: &ListOffsetsResponse,
        disk: &Disk,
    ) {
        let asked = request
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)));
        let answered = response.topics.iter().flat_map(|topic| &topic.partitions);
        let facts: Vec<_> = asked
            .zip(answered)
            .filter(|(_, answer)| !answer.error_code.is_error())
            .map(|((topic, asked), answer)| {
                let directory = directory(&topic.name, asked.partition_index);
                (directory, asked.timestamp, answer.offset)
            })
            .collect();
        for (directory, timestamp, offset) in facts {
            if self.models.get(&directory).is_none_or(|log| log.may_vanish) {
                continue;
            }
            match timestamp {
                -1 => self.showed_high_watermark(&directory, exchange.first_since, offset, disk),
                -2 => self.showed_log_start(&directory, exchange.first_since, offset),
                MAX_TIMESTAMP => self.check_newest_found(exchange, &directory, offset),
                0.. if offset < 0 => self.check_none_found(exchange, &directory, timestamp),
                _ => self.check_found_by_time(&directory, timestamp, offset),
            }
        }
    }

    /// An offset that was found by timestamp lies in a batch that can have it.
    fn check_found_by_time(&mut self, directory: &str, timestamp: i64, offset: i64) {
        if offset < 0 || timestamp < 0 {
            return;
        }
        let Some(log) = self.models.get(directory) else {
            return;
        };
        let Some((base, batch)) = log.batch_of(offset) else {
            if offset >= log.log_start {
                let detail = format!(
                    "{directory}: offset {offset} is found for timestamp {timestamp}, and no batch \
                     has it"
                );
                self.violate(Check::IndexAgreesWithLog, detail);
            }
            return;
        };
        // The first record at or after the timestamp: no earlier batch has one.
        let start = log.log_start.max(log.log_start_asked).min(base);
        let max_of = |bytes: &Bytes| crate::batch::first(bytes).map_or(-1, |b| b.max_timestamp);
        let earlier = log
            .batches
            .range(start..base)
            .find(|(_, batch)| max_of(&batch.bytes) >= timestamp)
            .map(|(base, _)| *base);
        let found = max_of(&batch.bytes);
        if let Some(earlier) = earlier {
            let detail = format!(
                "{directory}: offset {offset} is found for timestamp {timestamp}, and the batch at \
                 {earlier} has a record for it already"
            );
            self.violate(Check::IndexAgreesWithLog, detail);
        } else if found < timestamp {
            let detail = format!(
                "{directory}: offset {offset} is found for timestamp {timestamp}, and the largest \
                 timestamp of its batch is {found}"
            );
            self.violate(Check::IndexAgreesWithLog, detail);
        }
    }

    fn judge_create(&mut self, request: &CreateTopicsRequest, response: &CreateTopicsResponse) {
        for result in &response.topics {
            if result.error_code.is_error() || request.validate_only {
                continue;
            }
            let name = result.name.to_string();
            if result.topic_id != Default::default() {
                self.topic_ids.insert(result.topic_id, name.clone());
            }
            let asked = request
                .topics
                .iter()
                .find(|topic| topic.name == result.name);
            if let Some(asked) = asked {
                self.configs_created(asked);
            }
            let partitions = asked.map_or(1, |topic| topic.num_partitions.max(1));
            for partition in 0..partitions {
                // A topic of that name that was deleted before is another one.
                let directory = directory(&name, partition);
                if self
                    .models
                    .get(&directory)
                    .is_some_and(|log| log.may_vanish)
                {
                    self.models.forget(&directory);
                }
                self.models.entry(&directory);
            }
            self.created.insert(name, partitions);
        }
    }

    fn judge_delete(&mut self, _: &DeleteTopicsRequest, response: &DeleteTopicsResponse) {
        for result in &response.responses {
            if !result.error_code.is_error() {
                self.mark(Mark::TopicDeleted);
            }
        }
    }
}
