//! The batches of a segment file, one after the other.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use odradek_core::effect::BATCH_HEADER_BYTES;
use odradek_core::record::{BatchError, BatchHeader};

/// Most bytes that the records of one batch may have once decompressed: Odradek's own default for
/// what it accepts.
pub(super) const MAX_DECOMPRESSED_BYTES: usize = 100 << 20;

/// A batch as it lies in the file. Its header makes sense; nothing else is checked.
#[derive(Debug)]
pub(super) struct FileBatch {
    /// Where it begins.
    pub(super) position: u64,
    /// Its header.
    pub(super) header: BatchHeader,
    /// The whole batch.
    pub(super) bytes: Bytes,
}

/// The file cannot be read as batches from here on.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// Where.
    pub(super) position: u64,
    /// Why.
    pub(super) error: BatchError,
}

/// Reads a segment from its beginning to its end or to the first bytes that are no batch. Holds
/// one batch at a time.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: BufReader<File>,
    length: u64,
    position: u64,
}

impl SegmentReader {
    /// Opens a segment.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file: BufReader::with_capacity(256 << 10, file),
            length,
            position: 0,
        })
    }

    /// Length of the file in bytes.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// The next header; the file is then at the batch's records, `position` still at its
    /// beginning. `None` at the end.
    fn header(&mut self) -> io::Result<Option<Result<BatchHeader, BatchError>>> {
        let left = self.length - self.position;
        if left == 0 {
            return Ok(None);
        }
        let mut buffer = [0; BATCH_HEADER_BYTES];
        let there = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let head = buffer.get_mut(..there).unwrap_or_default();
        self.file.read_exact(head)?;
        let header = BatchHeader::parse(head);
        Ok(Some(match header {
            Ok(header) if header.size_bytes() > left => Err(BatchError::Truncated {
                needed: header.size_bytes(),
                found: left,
            }),
            other => other,
        }))
    }

    /// The next batch; `None` at the end of the file. After an `Unreadable` there is nothing more.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<FileBatch, Unreadable>>> {
        let position = self.position;
        let header = match self.header()? {
            None => return Ok(None),
            Some(Ok(header)) => header,
            Some(Err(error)) => {
                self.position = self.length;
                return Ok(Some(Err(Unreadable { position, error })));
            }
        };
        // No more than what the file has left, as `header` made sure.
        let size = usize::try_from(header.size_bytes()).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        let (head, records) = bytes.split_at_mut(BATCH_HEADER_BYTES);
        head.copy_from_slice(&header.encode());
        self.file.read_exact(records)?;
        self.position += header.size_bytes();
        Ok(Some(Ok(FileBatch {
            position,
            header,
            bytes: Bytes::from(bytes),
        })))
    }

    /// Goes on behind the batches that end before `offset`, without reading their records.
    pub(super) fn skip_before(&mut self, offset: i64) -> io::Result<()> {
        while let Some(Ok(header)) = self.header()?
            && header.last_offset().0 < offset
        {
            self.position += header.size_bytes();
            let records = header.size_bytes() - BATCH_HEADER_BYTES as u64;
            self.file
                .seek_relative(i64::try_from(records).map_err(io::Error::other)?)?;
        }
        // Back to where the header began; what is wrong there, `next` finds again.
        self.file.seek(SeekFrom::Start(self.position)).map(drop)
    }
}
