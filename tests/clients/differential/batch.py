"""Record batches: written with any fault one likes, and read as far as two brokers should agree."""

import gzip
import hashlib
import struct

CRC_TABLE = []
for index in range(256):
    value = index
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    CRC_TABLE.append(value)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(value):
    """A signed one, in zigzag."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(index, key, value, headers=(), timestamp_delta=0):
    body = b"\0" + varint(timestamp_delta) + varint(index)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name
        body += varint(-1) if content is None else varint(len(content)) + content
    return varint(len(body)) + body


# 2023-11-14, of no meaning: the same on both brokers.
TIMESTAMP = 1_700_000_000_000

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def batch(records, timestamp=TIMESTAMP, codec=NONE, attributes=0, producer=(-1, -1, -1), magic=2,
          count=None, last_offset_delta=None, base_offset=0, damage=None, leader_epoch=-1):
    """A batch of (key, value) or (key, value, headers)."""
    body = b"".join(record(i, r[0], r[1], r[2] if len(r) > 2 else ()) for i, r in enumerate(records))
    if codec == GZIP:
        body = gzip.compress(body, mtime=0)
    producer_id, epoch, sequence = producer
    last = len(records) - 1 if last_offset_delta is None else last_offset_delta
    count = len(records) if count is None else count
    covered = struct.pack(">hiqqqhii", codec | attributes, last, timestamp, timestamp, producer_id, epoch,
                          sequence, count) + body
    crc = crc32c(covered) ^ (1 if damage == "crc" else 0)
    rest = struct.pack(">ibI", leader_epoch, magic, crc) + covered
    size = len(rest) + (1000 if damage == "size" else 0)
    return struct.pack(">qi", base_offset, size) + rest


def read(data):
    """The batches of a fetch, field by field."""
    if data is None:
        return None
    batches = []
    while len(data) >= 61:
        base_offset, size, epoch, magic, _ = struct.unpack(">qiibI", data[:21])
        attributes, last, base, largest, producer_id, producer_epoch, sequence, count = struct.unpack(
            ">hiqqqhii", data[21:61])
        whole = 12 + size
        if len(data) < whole:
            # Cut by the limit of the fetch, which readers drop.
            break
        at_append = bool(attributes & 8)
        batches.append({
            "BaseOffset": base_offset, "LeaderEpoch": epoch, "Magic": magic, "Attributes": attributes,
            "LastOffsetDelta": last, "BaseTimestamp": base, "MaxTimestamp": "now" if at_append else largest,
            "ProducerId": producer_id, "ProducerEpoch": producer_epoch, "Sequence": sequence, "Count": count,
            "Records": hashlib.sha256(data[61:whole]).hexdigest()[:16],
        })
        data = data[whole:]
    return batches
