//! Producer ids (KIP-98): handed out from blocks, each set aside by a metadata record, so that none is
//! ever given twice, whatever crashes. What is left of a block at an end of the process is never used.

use crate::context::Context;
use crate::ids::ProducerId;
use crate::wire::ErrorCode;

use super::record::MetadataRecord;
use super::store::MetadataStore;

/// How many ids a record sets aside: as many as in Kafka.
const BLOCK: i64 = 1_000;

/// The rest of the block in use.
#[derive(Debug, Default)]
pub(super) struct ProducerIdBlock {
    next: i64,
    end: i64,
}

impl MetadataStore {
    /// An id that nobody has. It may be told once everything appended so far is durable: its block
    /// may be new.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS, which clients take for passing, while the metadata log takes no
    /// records; INVALID_REQUEST in the 292 million years after which there are no ids left.
    pub(crate) fn new_producer_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<ProducerId, ErrorCode> {
        if !self.is_current() {
            return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        if self.producer_ids.next == self.producer_ids.end {
            let first = self.image().next_producer_id;
            let end = first.checked_add(BLOCK).ok_or(ErrorCode::INVALID_REQUEST)?;
            self.append(cx, &[MetadataRecord::ProducerIds { next: end }])
                .map_err(|_| ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)?;
            self.producer_ids = ProducerIdBlock { next: first, end };
        }
        let id = ProducerId(self.producer_ids.next);
        self.producer_ids.next += 1;
        Ok(id)
    }
}
