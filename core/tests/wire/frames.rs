//! Whole frames: headers, lengths, and what is refused.

use crate::golden;

use bytes::Bytes;
use odradek_core::effect::{FileRange, Part};
use odradek_core::ids::{FileId, Position, TopicId};
use odradek_core::wire::messages::fetch::{FetchableTopicResponse, PartitionData};
use odradek_core::wire::messages::{ApiVersionsResponse, FetchResponse, MetadataRequest, metadata};
use odradek_core::wire::reader::Malformation;
use odradek_core::wire::{
    ApiKey, ErrorCode, Records, RequestBody, RequestError, RequestHeader, ResponseBody, Str, frame,
};

/// A frame without its length prefix, which must be right.
fn without_length(frame: &[u8]) -> Bytes {
    let (length, rest) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(i32::from_be_bytes(*length) as usize, rest.len());
    Bytes::copy_from_slice(rest)
}

fn header(api: ApiKey, version: i16) -> RequestHeader {
    RequestHeader {
        api_key: api.key(),
        api_version: version,
        correlation_id: 0x0102_0304,
        client_id: Some(Str::from("kcat")),
    }
}

#[test]
fn every_request_goes_through_a_frame_and_back() {
    for g in golden::all().iter().filter(|g| g.is_request) {
        let golden::Body::Request(body) = g.decode().unwrap() else {
            unreachable!("a request");
        };
        let header = header(g.api, g.version);
        let sent = golden::concat(&frame::encode_request(&header, &body).parts);
        let request = frame::decode_request(without_length(&sent)).unwrap();
        assert_eq!(request.header, header);
        assert_eq!(request.body, body, "{}", g.title());
    }
}

#[test]
fn every_response_goes_through_a_frame_and_back() {
    for g in golden::all().iter().filter(|g| !g.is_request) {
        let golden::Body::Response(body) = g.decode().unwrap() else {
            unreachable!("a response");
        };
        let sent = golden::concat(&frame::encode_response(7, g.version, &body).parts);
        let received = frame::decode_response(g.api, g.version, without_length(&sent)).unwrap();
        assert_eq!(received, (7, body), "{}", g.title());
    }
}

#[test]
fn an_api_versions_request_of_the_future_can_be_answered() {
    // Version 9 of a client that is ahead of us, with a header of a form nobody knows.
    let error = frame::decode_request(Bytes::from_static(&[
        0, 18, 0, 9, 0, 0, 0, 5, 0xff, 0xf0, 1, 2, 3,
    ]))
    .unwrap_err();
    let RequestError::UnsupportedVersion { api, header, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((api, header.correlation_id), (ApiKey::ApiVersions, 5));
    let answer = ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        ..Default::default()
    };
    let sent = golden::concat(&frame::encode_response(5, 0, &answer).parts);
    assert_eq!(sent, [0, 0, 0, 10, 0, 0, 0, 5, 0, 35, 0, 0, 0, 0]);
}

#[test]
fn an_api_versions_response_has_no_tagged_fields_in_its_header() {
    let sent = golden::concat(&frame::encode_response(5, 3, &ApiVersionsResponse::default()).parts);
    // Error, empty compact array, throttle time, no tags.
    assert_eq!(sent, [0, 0, 0, 12, 0, 0, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn produce_below_3_is_advertised_and_refused() {
    assert_eq!(ApiKey::Produce.advertised().min, 0);
    for version in 0..3 {
        let error = frame::decode_request(Bytes::from(vec![
            0, 0, 0, version, 0, 0, 0, 1, 0, 1, b'x', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        ]))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("Produce v{version} #1 from \"x\": only versions 3-13 are served")
        );
    }
}

#[test]
fn bytes_after_the_end_are_ignored() {
    // librdkafka 2.12 leaves them in every flexible Metadata request for all topics.
    let request = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let mut sent =
        golden::concat(&frame::encode_request(&header(ApiKey::Metadata, 12), &request).parts);
    sent.extend_from_slice(&[0, 0, 0]);
    let decoded = frame::decode_request(Bytes::copy_from_slice(&sent[4..])).unwrap();
    assert_eq!(decoded.body, RequestBody::Metadata(request));
}

#[test]
fn an_unknown_api_still_has_a_correlation_id() {
    let error =
        frame::decode_request(Bytes::from_static(&[3, 0xe7, 0, 0, 0, 0, 0, 9])).unwrap_err();
    assert_eq!(error.header().unwrap().correlation_id, 9);
    assert_eq!(error.to_string(), "api 999 v0 #9: no such API");
}

#[test]
fn a_frame_without_a_header_is_malformed() {
    for length in 0..8 {
        let error = frame::decode_request(Bytes::from(vec![0; length])).unwrap_err();
        assert!(error.header().is_none(), "{error}");
    }
}

#[test]
fn a_fetch_answers_with_a_range_of_a_file() {
    let range = FileRange {
        file: FileId(3),
        position: Position(4096),
        length: 1000,
    };
    for version in 4..=18 {
        let response = FetchResponse {
            responses: vec![FetchableTopicResponse {
                topic: "orders".into(),
                topic_id: TopicId([1; 16]),
                partitions: vec![PartitionData {
                    high_watermark: 5,
                    records: Some(Records::File(range)),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let parts = frame::encode_response(1, version, &response).parts;
        assert!(parts.contains(&Part::File(range)));
        // What a client receives, once the host has put the file's bytes in their place.
        let mut sent = Vec::new();
        for part in &parts {
            match part {
                Part::Bytes(bytes) => sent.extend_from_slice(bytes),
                Part::File(range) => sent.extend(vec![0xab; range.length as usize]),
            }
        }
        let (_, body) =
            frame::decode_response(ApiKey::Fetch, version, without_length(&sent)).unwrap();
        let ResponseBody::Fetch(received) = body else {
            unreachable!("a fetch response");
        };
        let partition = &received.responses[0].partitions[0];
        assert_eq!(
            partition.records,
            Some(Records::Bytes(Bytes::from(vec![0xab; 1000])))
        );
        assert_eq!(partition.high_watermark, 5);
    }
}

#[test]
fn record_bytes_are_slices_of_the_frame() {
    let g = golden::all()
        .iter()
        .find(|g| g.name == "ProduceRequest" && g.version == 13 && g.case == "full")
        .unwrap();
    let golden::Body::Request(RequestBody::Produce(produce)) = g.decode().unwrap() else {
        unreachable!("a produce request");
    };
    let Some(Records::Bytes(records)) = &produce.topic_data[0].partition_data[0].records else {
        panic!("records");
    };
    assert!(g.bytes.as_ptr_range().contains(&records.as_ptr()));
    let id = produce.transactional_id.unwrap();
    assert!(g.bytes.as_ptr_range().contains(&id.as_bytes().as_ptr()));
    assert!(
        !g.bytes
            .as_ptr_range()
            .contains(&id.detach().as_bytes().as_ptr())
    );
}

#[test]
fn all_topics_is_null_from_version_1_on() {
    let mut frame = vec![0, 3, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    frame.extend([0xff, 0xff, 0xff, 0xff]);
    let error = frame::decode_request(frame.clone().into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Metadata v0 #1: topics: null where null is not allowed"
    );
    frame[3] = 1;
    let request = frame::decode_request(frame.into()).unwrap();
    assert_eq!(
        request.body,
        RequestBody::Metadata(MetadataRequest {
            topics: None,
            ..Default::default()
        })
    );
    assert_eq!(MetadataRequest::default().topics, Some(vec![]));
}

#[test]
fn unknown_tagged_fields_come_back_between_the_known_ones() {
    // FetchRequest v12 knows tag 0; 5 and 9 are from the future.
    let g = golden::all()
        .iter()
        .find(|g| g.name == "FetchRequest" && g.version == 12 && g.case == "defaults")
        .unwrap();
    let mut bytes = g.bytes.to_vec();
    assert_eq!(bytes.pop(), Some(0));
    bytes.extend([3, 0, 3, 3, b'm', b'e', 5, 2, 7, 7, 9, 0]);
    let body = golden::decode(g.api, true, 12, bytes.clone().into()).unwrap();
    let golden::Body::Request(RequestBody::Fetch(fetch)) = &body else {
        unreachable!("a fetch request");
    };
    assert_eq!(fetch.cluster_id, Some("me".into()));
    assert_eq!(fetch.unknown_tagged_fields.len(), 2);
    assert_eq!(body.encode(12), bytes);
}

#[test]
fn tagged_fields_out_of_order_are_read_and_put_in_order() {
    let g = golden::all()
        .iter()
        .find(|g| g.name == "ApiVersionsRequest" && g.version == 3 && g.case == "defaults")
        .unwrap();
    assert_eq!(*g.bytes, [1, 1, 0]);
    let sent = vec![1, 1, 4, 9, 1, b'a', 2, 1, b'b', 9, 1, b'c', 0, 0];
    let body = golden::decode(g.api, true, 3, sent.into()).unwrap();
    // Of the two with tag 9 the last counts.
    assert_eq!(body.encode(3), [1, 1, 3, 0, 0, 2, 1, b'b', 9, 1, b'c']);
}

#[test]
fn a_string_beyond_kafkas_limit_is_refused_and_never_written() {
    let mut sent = vec![0x81, 0x80, 0x02];
    sent.extend(vec![b'a'; 32_768]);
    sent.extend([1, 0]);
    let error = golden::decode(ApiKey::ApiVersions, true, 3, sent.into()).unwrap_err();
    assert_eq!(error.reason, Malformation::StringTooLong(32_768));
    let written = frame::encode_response(
        1,
        1,
        &odradek_core::wire::messages::MetadataResponse {
            brokers: vec![metadata::MetadataResponseBroker {
                host: "\u{20ac}".repeat(20_000).into(),
                ..Default::default()
            }],
            ..Default::default()
        },
    );
    let (_, body) = frame::decode_response(
        ApiKey::Metadata,
        1,
        without_length(&golden::concat(&written.parts)),
    )
    .unwrap();
    let ResponseBody::Metadata(metadata) = body else {
        unreachable!("a metadata response");
    };
    // Whole characters of three bytes.
    assert_eq!(metadata.brokers[0].host.len(), 32_766);
}
