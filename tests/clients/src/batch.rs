//! Kafka's record batch v2, uncompressed: what the plain client sends and checks.

use crate::records::TestRecord;

/// Magic to CRC, and what the CRC covers, start at these bytes of a batch.
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
const HEADER_BYTES: usize = 61;

/// A record read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its offset in the partition.
    pub offset: i64,
    /// What the producer sent.
    pub record: TestRecord,
}

/// One batch of these records, as a producer without an id sends it. The first one has this
/// timestamp, and each is one millisecond later than the one before.
pub fn encode(first_timestamp_ms: i64, records: &[TestRecord]) -> Vec<u8> {
    let last_delta = records.len() as i32 - 1;
    let mut batch = Vec::new();
    // Base offset, length (set below), leader epoch, magic, CRC (set below).
    batch.extend_from_slice(&0i64.to_be_bytes());
    batch.extend_from_slice(&0i32.to_be_bytes());
    batch.extend_from_slice(&(-1i32).to_be_bytes());
    batch.push(2);
    batch.extend_from_slice(&0u32.to_be_bytes());
    // Attributes, last offset delta, first and largest timestamp, producer id and epoch, first
    // sequence, count.
    batch.extend_from_slice(&0i16.to_be_bytes());
    batch.extend_from_slice(&last_delta.to_be_bytes());
    batch.extend_from_slice(&first_timestamp_ms.to_be_bytes());
    batch.extend_from_slice(&(first_timestamp_ms + i64::from(last_delta)).to_be_bytes());
    batch.extend_from_slice(&(-1i64).to_be_bytes());
    batch.extend_from_slice(&(-1i16).to_be_bytes());
    batch.extend_from_slice(&(-1i32).to_be_bytes());
    batch.extend_from_slice(&(records.len() as i32).to_be_bytes());
    for (delta, record) in (0..).zip(records) {
        let mut body = vec![0];
        put_varint(&mut body, delta);
        put_varint(&mut body, delta);
        put_bytes(&mut body, record.key.as_deref());
        put_bytes(&mut body, record.value.as_deref());
        put_varint(&mut body, record.headers.len() as i64);
        for (name, value) in &record.headers {
            put_bytes(&mut body, Some(name.as_bytes()));
            put_bytes(&mut body, value.as_deref());
        }
        put_varint(&mut batch, body.len() as i64);
        batch.extend_from_slice(&body);
    }
    let length = (batch.len() - 12) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// The records of every whole batch; a part of a batch at the end, which a fetch may give, is left
/// out.
///
/// # Errors
/// A batch that is damaged: what is wrong with it.
pub fn decode_all(mut bytes: &[u8]) -> Result<Vec<Stored>, String> {
    let mut records = Vec::new();
    while let Some(length) = bytes.get(8..12) {
        let length = i32::from_be_bytes(length.try_into().expect("four bytes"));
        let total =
            12 + usize::try_from(length).map_err(|_| format!("a batch of {length} bytes"))?;
        let Some(batch) = bytes.get(..total) else {
            break;
        };
        decode(batch, &mut records)?;
        bytes = &bytes[total..];
    }
    Ok(records)
}

fn decode(batch: &[u8], records: &mut Vec<Stored>) -> Result<(), String> {
    if batch.len() < HEADER_BYTES || batch[16] != 2 {
        return Err("a batch that is not of version 2".to_owned());
    }
    let base_offset = i64::from_be_bytes(batch[..8].try_into().expect("eight bytes"));
    let crc = u32::from_be_bytes(batch[CRC_AT..CRC_FROM].try_into().expect("four bytes"));
    if crc != crc32c::crc32c(&batch[CRC_FROM..]) {
        return Err(format!(
            "the CRC of the batch at offset {base_offset} is wrong"
        ));
    }
    let count = u32::from_be_bytes(batch[57..61].try_into().expect("four bytes"));
    let mut reader = Reader(&batch[HEADER_BYTES..]);
    for _ in 0..count {
        let record = reader
            .record(base_offset)
            .ok_or_else(|| format!("the batch at offset {base_offset} ends inside a record"))?;
        records.push(record);
    }
    if reader.0.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "the batch at offset {base_offset} has bytes left over"
        ))
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn record(&mut self, base_offset: i64) -> Option<Stored> {
        let _length = self.varint()?;
        let _attributes = self.take(1)?;
        let _timestamp_delta = self.varint()?;
        let offset = base_offset + self.varint()?;
        let key = self.bytes()?;
        let value = self.bytes()?;
        let headers = (0..self.varint()?)
            .map(|_| Some((String::from_utf8(self.bytes()??).ok()?, self.bytes()?)))
            .collect::<Option<_>>()?;
        Some(Stored {
            offset,
            record: TestRecord {
                key,
                value,
                headers,
            },
        })
    }

    /// Bytes or null; `None` outside is the end of the batch.
    fn bytes(&mut self) -> Option<Option<Vec<u8>>> {
        match usize::try_from(self.varint()?) {
            Ok(len) => Some(Some(self.take(len)?.to_vec())),
            Err(_) => Some(None),
        }
    }

    fn varint(&mut self) -> Option<i64> {
        let mut zigzag = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            zigzag |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
            }
        }
        None
    }

    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

fn put_bytes(buffer: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_varint(buffer, bytes.len() as i64);
            buffer.extend_from_slice(bytes);
        }
        None => put_varint(buffer, -1),
    }
}

fn put_varint(buffer: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        buffer.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    buffer.push(zigzag as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::odd_record;

    #[test]
    fn odd_records_come_back_as_they_were() {
        let records: Vec<TestRecord> = (0..500).map(|index| odd_record(1, index)).collect();
        let stored = decode_all(&encode(7, &records)).expect("the batch is whole");
        let expected: Vec<Stored> = (0..)
            .zip(records)
            .map(|(offset, record)| Stored { offset, record })
            .collect();
        assert_eq!(stored, expected);
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut batch = encode(7, &[odd_record(1, 1)]);
        *batch.last_mut().expect("a batch has bytes") ^= 1;
        assert!(decode_all(&batch).is_err());
    }
}
