//! Requests of clients in words.

use std::fmt::Write;

use bytes::Bytes;
use odradek_core::wire::frame::decode_request;
use odradek_core::wire::{ApiKey, Records, RequestBody};

use crate::batch;

/// Whether a request is routine: it looks up what a client must know before it asks for anything, or
/// says that a member is still there and nothing else.
#[must_use]
pub fn is_routine(frame: &Bytes) -> bool {
    let key = frame.get(4..6).and_then(<[u8]>::first_chunk);
    let api = key.and_then(|key| ApiKey::from_key(i16::from_be_bytes(*key)));
    match api {
        Some(
            ApiKey::ApiVersions
            | ApiKey::Metadata
            | ApiKey::InitProducerId
            | ApiKey::FindCoordinator
            | ApiKey::Heartbeat,
        ) => true,
        Some(ApiKey::ConsumerGroupHeartbeat) => {
            let request = decode_request(frame.slice(4..));
            matches!(
                request.map(|request| request.body),
                Ok(RequestBody::ConsumerGroupHeartbeat(beat))
                    if beat.member_epoch > 0
                        && beat.subscribed_topic_names.is_none()
                        && beat.subscribed_topic_regex.is_none()
                        && beat.topic_partitions.is_none()
            )
        }
        _ => false,
    }
}

/// A frame with its length, as what it asks for.
#[must_use]
pub fn request(frame: &Bytes) -> String {
    if frame.len() < 4 {
        return format!("{} bytes", frame.len());
    }
    let request = match decode_request(frame.slice(4..)) {
        Ok(request) => request,
        Err(error) => return format!("{} bytes that are no request: {error}", frame.len()),
    };
    let mut words = request.header.to_string();
    // A string does not fail to be written to.
    let _ = match &request.body {
        RequestBody::Produce(produce) => {
            let _ = write!(words, ", acks {}", produce.acks);
            produce.topic_data.iter().try_for_each(|topic| {
                topic.partition_data.iter().try_for_each(|partition| {
                    let records = match &partition.records {
                        Some(Records::Bytes(bytes)) => bytes.clone(),
                        _ => Bytes::new(),
                    };
                    let count: i64 = batch::all(&records)
                        .map(|batch| batch.last_offset - batch.base_offset + 1)
                        .sum();
                    let name = named(&topic.name, partition.index);
                    let bytes = records.len();
                    write!(words, ", {name}: {count} records in {bytes} bytes")
                })
            })
        }
        RequestBody::Fetch(fetch) => {
            let (min, wait) = (fetch.min_bytes, fetch.max_wait_ms);
            let _ = write!(words, ", {min} bytes or {wait} ms");
            fetch.topics.iter().try_for_each(|topic| {
                topic.partitions.iter().try_for_each(|partition| {
                    let name = named(&topic.topic, partition.partition);
                    write!(words, ", {name} from {}", partition.fetch_offset)
                })
            })
        }
        RequestBody::ListOffsets(list) => list.topics.iter().try_for_each(|topic| {
            topic.partitions.iter().try_for_each(|partition| {
                let name = named(&topic.name, partition.partition_index);
                write!(words, ", {name} at {}", partition.timestamp)
            })
        }),
        RequestBody::DeleteRecords(delete) => delete.topics.iter().try_for_each(|topic| {
            topic.partitions.iter().try_for_each(|partition| {
                let name = named(&topic.name, partition.partition_index);
                write!(words, ", {name} before {}", partition.offset)
            })
        }),
        RequestBody::CreateTopics(create) => create
            .topics
            .iter()
            .try_for_each(|topic| write!(words, ", {} with {}", topic.name, topic.num_partitions)),
        _ => Ok(()),
    };
    words
}

/// A partition by its name, or only its number where the request names the topic's id.
fn named(topic: &str, partition: i32) -> String {
    if topic.is_empty() {
        format!("partition {partition}")
    } else {
        format!("{topic}-{partition}")
    }
}

#[cfg(test)]
mod tests {
    use odradek_core::wire::RequestHeader;
    use odradek_core::wire::frame::encode_request;
    use odradek_core::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
    use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};

    use super::*;
    use crate::workload::session::flat;

    fn fetch() -> Bytes {
        let body = FetchRequest {
            max_wait_ms: 50,
            min_bytes: 1,
            topics: vec![FetchTopic {
                topic: "topic0".into(),
                partitions: vec![FetchPartition {
                    partition: 2,
                    fetch_offset: 7,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let header = RequestHeader {
            api_key: ApiKey::Fetch.key(),
            api_version: 11,
            correlation_id: 3,
            client_id: None,
        };
        flat(&encode_request(&header, &RequestBody::from(body)))
    }

    #[test]
    fn a_fetch_says_what_it_wants() {
        let words = request(&fetch());
        assert!(words.contains("Fetch v11"), "{words}");
        assert!(
            words.ends_with(", 1 bytes or 50 ms, topic0-2 from 7"),
            "{words}"
        );
        assert!(!is_routine(&fetch()));
    }

    #[test]
    fn a_heartbeat_is_routine_unless_it_says_something() {
        let beat = |member_epoch, topics: Option<&str>| {
            let body = ConsumerGroupHeartbeatRequest {
                member_epoch,
                subscribed_topic_names: topics.map(|topic| vec![topic.into()]),
                ..Default::default()
            };
            let header = RequestHeader {
                api_key: ApiKey::ConsumerGroupHeartbeat.key(),
                api_version: 1,
                correlation_id: 1,
                client_id: None,
            };
            flat(&encode_request(&header, &RequestBody::from(body)))
        };
        assert!(is_routine(&beat(3, None)));
        assert!(!is_routine(&beat(3, Some("topic1"))));
        assert!(!is_routine(&beat(0, None)), "it joins");
        assert!(!is_routine(&beat(-1, None)), "it leaves");
    }

    #[test]
    fn noise_has_words_too() {
        assert_eq!(request(&Bytes::from_static(b"ab")), "2 bytes");
        assert!(request(&Bytes::from_static(&[0, 0, 0, 3, 1, 2, 3])).contains("no request"));
        assert!(!is_routine(&Bytes::new()));
    }
}
