//! Whole frames: a header and a body, both ways.

use alloc::boxed::Box;
use bytes::Bytes;
use core::fmt;

use super::api::{ApiKey, RequestBody, ResponseBody};
use super::messages::Body;
use super::reader::{DecodeError, Malformation, Reader};
use super::tagged_fields::TaggedFields;
use super::text::Str;
use super::value::{Format, Nullable, Value};
use super::versions::Versions;
use super::writer::Writer;
use crate::effect::Response;

/// What every request begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API, known or not.
    pub api_key: i16,
    /// The version of the API.
    pub api_version: i16,
    /// Comes back in the response.
    pub correlation_id: i32,
    /// The name the client gave itself.
    pub client_id: Option<Str>,
}

/// A request whose every byte was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who asks, and in which version.
    pub header: RequestHeader,
    /// What for.
    pub body: RequestBody,
}

/// Why a frame is not a request that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The API is known but not in this version. For ApiVersions the answer is error 35 in the form
    /// of version 0; for any other there is no form in which to answer.
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// The header. For ApiVersions, whose header form in a later version is not known, the
        /// client id may be missing.
        header: RequestHeader,
        /// The versions that can be served.
        supported: Versions,
    },
    /// No such API.
    UnknownApi {
        /// The header as far as it is the same for all APIs: without client id.
        header: RequestHeader,
    },
    /// The bytes are not what the header says, or there is no header.
    Malformed {
        /// The header, if it could be read.
        header: Option<Box<RequestHeader>>,
        /// What is wrong.
        reason: DecodeError,
    },
}

/// Reads a request from a frame without its length prefix. The request holds slices of the frame.
///
/// Bytes after the end of the body are ignored, as Kafka does: librdkafka leaves three behind the
/// null array of a flexible Metadata request.
pub fn decode_request(frame: Bytes) -> Result<Request, RequestError> {
    let mut reader = Reader::new(frame);
    let mut header = read_fixed_header(&mut reader).map_err(|reason| RequestError::Malformed {
        header: None,
        reason: reason.in_field("header"),
    })?;
    let Some(api) = ApiKey::from_key(header.api_key) else {
        return Err(RequestError::UnknownApi { header });
    };
    let version = header.api_version;
    let supported = api.versions();
    let rest = read_rest_of_header(&mut reader, api.request_header_version(version));
    if !supported.contains(version) {
        header.client_id = rest.unwrap_or_default();
        return Err(RequestError::UnsupportedVersion {
            api,
            header,
            supported,
        });
    }
    header.client_id = rest.map_err(|reason| RequestError::Malformed {
        header: None,
        reason: reason.in_field("header"),
    })?;
    match RequestBody::decode(api, version, &mut reader) {
        Ok(body) => Ok(Request { header, body }),
        Err(reason) => Err(RequestError::Malformed {
            header: Some(Box::new(header)),
            reason,
        }),
    }
}

fn read_fixed_header(reader: &mut Reader) -> Result<RequestHeader, DecodeError> {
    Ok(RequestHeader {
        api_key: reader.i16()?,
        api_version: reader.i16()?,
        correlation_id: reader.i32()?,
        client_id: None,
    })
}

/// The client id, which is never compact, and the tagged fields of version 2, none of which has a
/// meaning yet: they are dropped.
fn read_rest_of_header(
    reader: &mut Reader,
    header_version: i16,
) -> Result<Option<Str>, DecodeError> {
    let client_id = Str::read_nullable(reader, HEADER)?;
    if header_version >= 2 {
        TaggedFields::read(reader, |_, content| {
            content.take_rest();
            Ok(true)
        })?;
    }
    Ok(client_id)
}

const HEADER: Format = Format {
    version: 0,
    flexible: false,
    nullable: true,
    tagged: false,
};

/// Writes a response frame, its length first.
///
/// # Panics
///
/// If the body does not have `version`, as [`Versioned::encode`](super::Versioned::encode) does.
#[must_use]
pub fn encode_response(correlation_id: i32, version: i16, body: &impl Body) -> Response {
    let mut writer = Writer::frame();
    writer.put_i32(correlation_id);
    if body.api().response_header_version(version) >= 1 {
        writer.put_unsigned_varint(0);
    }
    body.encode_body(&mut writer, version);
    writer.finish_frame()
}

/// Writes a request frame, its length first. The API key is the body's, whatever the header says.
///
/// # Panics
///
/// If the body does not have the header's version.
#[must_use]
pub fn encode_request(header: &RequestHeader, body: &impl Body) -> Response {
    let api = body.api();
    let mut writer = Writer::frame();
    writer.put_i16(api.key());
    writer.put_i16(header.api_version);
    writer.put_i32(header.correlation_id);
    header.client_id.write(&mut writer, HEADER);
    if api.request_header_version(header.api_version) >= 2 {
        writer.put_unsigned_varint(0);
    }
    body.encode_body(&mut writer, header.api_version);
    writer.finish_frame()
}

/// The correlation id in front of a response frame (without its length prefix).
pub fn peek_correlation_id(frame: &Bytes) -> Result<i32, DecodeError> {
    Reader::new(frame.clone()).i32()
}

/// Reads a response from a frame without its length prefix, and the correlation id it answers.
pub fn decode_response(
    api: ApiKey,
    version: i16,
    frame: Bytes,
) -> Result<(i32, ResponseBody), DecodeError> {
    if !api.versions().contains(version) {
        return Err(DecodeError::new(Malformation::Version(version)));
    }
    let mut reader = Reader::new(frame);
    let correlation_id = reader.i32()?;
    if api.response_header_version(version) >= 1 {
        TaggedFields::read(&mut reader, |_, content| {
            content.take_rest();
            Ok(true)
        })?;
    }
    let body = ResponseBody::decode(api, version, &mut reader)?;
    reader.finish()?;
    Ok((correlation_id, body))
}

impl RequestError {
    /// The header, if it could be read.
    #[must_use]
    pub fn header(&self) -> Option<&RequestHeader> {
        match self {
            Self::UnsupportedVersion { header, .. } | Self::UnknownApi { header } => Some(header),
            Self::Malformed { header, .. } => header.as_deref(),
        }
    }
}

impl fmt::Display for RequestHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ApiKey::from_key(self.api_key) {
            Some(api) => write!(f, "{api}")?,
            None => write!(f, "api {}", self.api_key)?,
        }
        write!(f, " v{} #{}", self.api_version, self.correlation_id)?;
        match &self.client_id {
            // It may be of 32 KB, and this goes into a line of the log.
            Some(client_id) => match client_id.char_indices().nth(100) {
                Some((end, _)) => write!(f, " from {:?}...", client_id.get(..end).unwrap_or("")),
                None => write!(f, " from {client_id:?}"),
            },
            None => Ok(()),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.fmt(f)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedVersion {
                header, supported, ..
            } => write!(f, "{header}: only versions {supported} are served"),
            Self::UnknownApi { header } => write!(f, "{header}: no such API"),
            Self::Malformed {
                header: Some(header),
                reason,
            } => write!(f, "{header}: {reason}"),
            Self::Malformed {
                header: None,
                reason,
            } => write!(f, "no request: {reason}"),
        }
    }
}

impl core::error::Error for RequestError {}
