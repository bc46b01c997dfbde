//! Snapshots of the image: a start then replays only what came after.
//!
//! The file `metadata.snapshot` holds record batches: first a
//! [`Snapshot`](MetadataRecord::Snapshot) record, then the records that make the image. It is
//! replaced by write, flush, rename, flush of the directory, so it is whole or the one before.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::image::Image;
use super::record::MetadataRecord;
use super::replay;
use crate::ids::Offset;
use crate::record::batch::BatchHeader;
use crate::time::Wall;

/// The file's name in the data directory.
pub(super) const FILE: &str = "metadata.snapshot";

/// Records in one batch of the file.
const BATCH_RECORDS: usize = 1000;

/// The file's content for an image as it is at `offset` of the metadata log.
pub(super) fn encode(image: &Image, offset: Offset, now: Wall) -> Bytes {
    let body = image.records();
    let mut records = Vec::with_capacity(body.len() + 1);
    records.push(MetadataRecord::Snapshot {
        offset: offset.0,
        records: i32::try_from(body.len()).unwrap_or(i32::MAX),
    });
    records.extend(body);
    let mut bytes = BytesMut::new();
    let mut base = Offset(0);
    for chunk in records.chunks(BATCH_RECORDS) {
        bytes.extend_from_slice(&replay::encode(chunk, base, now));
        base = base.plus(chunk.len() as i64);
    }
    bytes.freeze()
}

/// Reads the file back: the image, and the offset from which a replay goes on.
pub(super) fn decode(mut bytes: Bytes) -> Result<(Image, Offset), String> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let header = BatchHeader::parse(&bytes).map_err(|error| error.to_string())?;
        let size = usize::try_from(header.size_bytes()).unwrap_or(usize::MAX);
        if size > bytes.len() {
            return Err("it ends inside a batch".to_string());
        }
        let batch = bytes.split_to(size);
        if !crate::record::batch::verify_crc(&batch) {
            return Err("the CRC of a batch does not hold".to_string());
        }
        records.extend(replay::records_of(&batch)?);
    }
    let Some((
        MetadataRecord::Snapshot {
            offset,
            records: count,
        },
        body,
    )) = records.split_first()
    else {
        return Err("it does not begin with its header record".to_string());
    };
    if usize::try_from(*count).ok() != Some(body.len()) {
        return Err("records are missing at its end".to_string());
    }
    let mut image = Image::default();
    body.iter().for_each(|record| image.replay(record));
    Ok((image, Offset(*offset)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TopicId;

    fn image() -> Image {
        let mut image = Image::default();
        image.replay(&MetadataRecord::Cluster {
            id: "c".to_string(),
        });
        for number in 0..2500_u32 {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&number.to_be_bytes());
            image.replay(&MetadataRecord::Topic {
                id: TopicId(id),
                name: alloc::format!("topic-{number}"),
                partitions: 1,
                epoch: 0,
            });
        }
        image
    }

    #[test]
    fn a_snapshot_reads_back() {
        let bytes = encode(&image(), Offset(77), Wall(5));
        assert_eq!(decode(bytes), Ok((image(), Offset(77))));
    }

    #[test]
    fn a_damaged_snapshot_is_refused() {
        let bytes = encode(&image(), Offset(77), Wall(5));
        assert!(decode(bytes.slice(..bytes.len() - 1)).is_err());
        // Cut between two batches, only the count tells.
        let first = BatchHeader::parse(&bytes).unwrap().size_bytes() as usize;
        assert!(
            decode(bytes.slice(..first))
                .unwrap_err()
                .contains("missing")
        );
        let mut flipped = bytes.to_vec();
        flipped[100] ^= 1;
        assert!(decode(flipped.into()).is_err());
    }
}
