//! What is done with a frame before the step, outside its lock: everything that depends on the
//! frame alone.

use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

use super::codecs::Codecs;
use crate::record::batch::CheckedBatch;
use crate::record::check::{Limits, RecordsError, check_records_with};
use crate::record::compression::Tables;
use crate::record::recompress::recompress;
use crate::wire::frame::decode_request;
use crate::wire::{Records, Request, RequestBody, RequestError, RequestHeader};

/// What the checks of a produce request's record batches found, a result for each partition in the
/// order of the request.
pub(crate) type RecordChecks = Vec<Result<Vec<CheckedBatch>, RecordsError>>;

/// A frame, decoded and with its records checked, valid or not.
#[derive(Clone, Debug)]
pub struct Prepared {
    request: Result<Request, RequestError>,
    checks: RecordChecks,
}

/// Decodes a frame (without its length prefix), checks the record batches in it, and packs them as
/// their topics keep them. A pure function of the two: the tables only save the time to make others.
#[must_use]
pub fn prepare(frame: Bytes, codecs: &Codecs, tables: &mut Tables) -> Prepared {
    let request = decode_request(frame);
    let checks = match &request {
        Ok(Request {
            header,
            body: RequestBody::Produce(produce),
        }) => {
            let limits = Limits {
                zstd_allowed: header.api_version >= 7,
                ..Limits::default()
            };
            let has_ids = header.api_version >= 13;
            let mut checks = Vec::new();
            for topic in &produce.topic_data {
                let kept = codecs.kept(has_ids, &topic.name, topic.topic_id);
                for partition in &topic.partition_data {
                    let records = match &partition.records {
                        Some(Records::Bytes(bytes)) => bytes.clone(),
                        Some(Records::File(_)) | None => Bytes::new(),
                    };
                    let batches = check_records_with(records, &limits, tables);
                    checks.push(match kept {
                        None => batches,
                        Some(kept) => batches.and_then(|batches| {
                            batches
                                .into_iter()
                                .map(|batch| recompress(batch, kept, tables))
                                .collect()
                        }),
                    });
                }
            }
            checks
        }
        _ => Vec::new(),
    };
    Prepared { request, checks }
}

impl Prepared {
    /// The request's header, as far as it could be read.
    #[must_use]
    pub fn header(&self) -> Option<&RequestHeader> {
        match &self.request {
            Ok(request) => Some(&request.header),
            Err(error) => error.header(),
        }
    }

    /// The version in which the answer is written: the request's, but 0 for an ApiVersions whose
    /// version is not served.
    pub(crate) fn answer_version(&self) -> i16 {
        match &self.request {
            Ok(request) => request.header.api_version,
            Err(_) => 0,
        }
    }

    /// The request, or why it is none.
    pub const fn request(&self) -> Result<&Request, &RequestError> {
        self.request.as_ref()
    }

    /// Whether it may overlap with others on its connection.
    pub(crate) const fn is_produce(&self) -> bool {
        matches!(
            &self.request,
            Ok(Request {
                body: RequestBody::Produce(_),
                ..
            })
        )
    }

    pub(crate) fn into_parts(self) -> Result<(Request, RecordChecks), RequestError> {
        Ok((self.request?, self.checks))
    }
}

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.request {
            Ok(request) => request.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
