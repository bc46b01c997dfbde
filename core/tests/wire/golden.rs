//! Messages as Kafka 4.3.1's own Java classes write them; `generate` makes the file.

use std::sync::LazyLock;

use bytes::Bytes;
use odradek_core::wire::{ApiKey, DecodeError, Reader, RequestBody, ResponseBody};

/// One message of the file.
pub(crate) struct Golden {
    pub(crate) name: &'static str,
    pub(crate) api: ApiKey,
    pub(crate) is_request: bool,
    pub(crate) version: i16,
    /// `defaults`, `full`, `nulls` or `inner-nulls`.
    pub(crate) case: &'static str,
    pub(crate) header_version: i16,
    pub(crate) bytes: Bytes,
    /// The fields that the version has, as Kafka's JSON converter shows them.
    pub(crate) json: serde_json::Value,
}

/// A request or a response.
#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    Request(RequestBody),
    Response(ResponseBody),
}

pub(crate) fn all() -> &'static [Golden] {
    static ALL: LazyLock<Vec<Golden>> = LazyLock::new(|| {
        include_str!("../golden/kafka-4.3.1.txt")
            .lines()
            .map(parse)
            .collect()
    });
    &ALL
}

fn parse(line: &'static str) -> Golden {
    let [name, version, case, header_version, hex, json] = line
        .split('\t')
        .collect::<Vec<_>>()
        .try_into()
        .expect("six columns");
    let (api, is_request) = match name.strip_suffix("Request") {
        Some(api) => (api, true),
        None => (name.strip_suffix("Response").unwrap(), false),
    };
    Golden {
        name,
        api: *ApiKey::ALL.iter().find(|key| key.name() == api).unwrap(),
        is_request,
        version: version.parse().unwrap(),
        case,
        header_version: header_version.parse().unwrap(),
        bytes: from_hex(hex),
        json: serde_json::from_str(json).unwrap(),
    }
}

pub(crate) fn from_hex(hex: &str) -> Bytes {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

impl Golden {
    pub(crate) fn title(&self) -> String {
        format!("{} v{} {}", self.name, self.version, self.case)
    }

    pub(crate) fn decode(&self) -> Result<Body, DecodeError> {
        decode(self.api, self.is_request, self.version, self.bytes.clone())
    }
}

/// Decodes all of `bytes`.
pub(crate) fn decode(
    api: ApiKey,
    is_request: bool,
    version: i16,
    bytes: Bytes,
) -> Result<Body, DecodeError> {
    let mut reader = Reader::new(bytes);
    let body = if is_request {
        Body::Request(RequestBody::decode(api, version, &mut reader)?)
    } else {
        Body::Response(ResponseBody::decode(api, version, &mut reader)?)
    };
    reader.finish()?;
    Ok(body)
}

impl Body {
    pub(crate) fn encode(&self, version: i16) -> Vec<u8> {
        use odradek_core::wire::messages::Body as _;
        let mut writer = odradek_core::wire::Writer::new();
        match self {
            Self::Request(body) => body.encode_body(&mut writer, version),
            Self::Response(body) => body.encode_body(&mut writer, version),
        }
        concat(&writer.finish())
    }
}

/// The bytes of parts that are all in memory.
pub(crate) fn concat(parts: &[odradek_core::effect::Part]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            odradek_core::effect::Part::Bytes(part) => bytes.extend_from_slice(part),
            odradek_core::effect::Part::File(range) => panic!("no file here: {range:?}"),
        }
    }
    bytes
}
