//! Sends responses: bytes with one call for many, ranges of files without copying them through
//! this process.
//!
//! Whether a range is in the page cache is asked with `preadv2(RWF_NOWAIT)`. A small range is read
//! that way and goes out with the bytes around it. Of a large one a byte in every 64 KiB is asked
//! for, less than the unit in which the system reads ahead, and then `sendfile` sends it; if a page in
//! between is missing after all, that call waits for one read of the disk.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use odradek_core::ids::Position;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::disk::descriptors::OpenFile;
use crate::disk::read_files::{is_cold, read_now};
use crate::hand_over::outbox::{Outgoing, OutgoingPart, Sent};

type Queue = VecDeque<Outgoing<Arc<OpenFile>>>;
type Part = OutgoingPart<Arc<OpenFile>>;

/// Ranges up to this size are read and sent with the bytes around them: below it a copy costs less
/// than a call of its own.
const INLINE_BYTES: u64 = 32 << 10;
/// Bounds of one call that gathers bytes.
const MAX_SLICES: usize = 64;
const MAX_GATHER_BYTES: usize = 256 << 10;
/// How much of a file one call sends.
const MAX_SENDFILE_BYTES: u64 = 1 << 20;
/// Distance of the bytes that are asked for to see whether a range is in the page cache.
const PROBE_BYTES: u64 = 64 << 10;
/// How a thread that may block reads a range.
const WARM_UP_BYTES: usize = 128 << 10;

/// Sends as much as the socket takes without blocking; see [`crate::driver::Host::send`].
pub(crate) fn send(stream: &TcpStream, queue: &mut Queue) -> Sent {
    loop {
        while let Some(first) = queue.front()
            && first.parts.is_empty()
        {
            queue.pop_front();
        }
        if queue.is_empty() {
            return Sent::All;
        }
        let sent = match inline_small_ranges(queue) {
            0 => send_first_range(stream, queue),
            count => send_bytes(stream, queue, count),
        };
        match sent {
            Ok(()) => {}
            Err(Stop::Cold) => return Sent::Cold,
            Err(Stop::Lost(reason)) => return Sent::Broken(reason),
            Err(Stop::Socket(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return Sent::Full;
            }
            Err(Stop::Socket(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(Stop::Socket(error)) => return Sent::Broken(error.to_string()),
        }
    }
}

/// Reads the first range into the page cache; see [`crate::driver::Host::warm_up`].
pub(crate) fn warm_up(queue: &mut Queue) {
    let Some(OutgoingPart::File {
        pin,
        position,
        length,
        warm,
    }) = queue.front_mut().and_then(|first| first.parts.front_mut())
    else {
        return;
    };
    let mut buffer = vec![0; WARM_UP_BYTES.min(usize::try_from(*length).unwrap_or(WARM_UP_BYTES))];
    let end = position.0 + *length;
    let mut at = position.0;
    while at < end {
        match pin.file.read_at(&mut buffer, at) {
            // Whoever sends it finds out in its own way.
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
            Ok(n) => at += n as u64,
        }
    }
    *warm = true;
}

enum Stop {
    Cold,
    Lost(String),
    Socket(io::Error),
}

/// Turns small warm ranges at the head of the queue into bytes. Returns how many parts are bytes
/// from the head on, as far as one call takes them.
fn inline_small_ranges(queue: &mut Queue) -> usize {
    let mut count = 0;
    let mut total = 0;
    for part in queue.iter_mut().flat_map(|response| &mut response.parts) {
        if let OutgoingPart::File {
            pin,
            position,
            length,
            warm,
        } = part
            && *length <= INLINE_BYTES
        {
            match read_small(pin, *position, *length, *warm) {
                Ok(Some(bytes)) => *part = OutgoingPart::Bytes(bytes),
                Ok(None) => return count,
                Err(reason) => *part = OutgoingPart::Lost(reason),
            }
        }
        let OutgoingPart::Bytes(bytes) = part else {
            return count;
        };
        count += 1;
        total += bytes.len();
        if count == MAX_SLICES || total >= MAX_GATHER_BYTES {
            return count;
        }
    }
    count
}

fn send_bytes(stream: &TcpStream, queue: &mut Queue, count: usize) -> Result<(), Stop> {
    let mut slices = [IoSlice::new(&[]); MAX_SLICES];
    let mut parts = queue.iter().flat_map(|response| &response.parts);
    for (slice, part) in slices.iter_mut().zip(parts.by_ref().take(count)) {
        if let OutgoingPart::Bytes(bytes) = part {
            *slice = IoSlice::new(bytes);
        }
    }
    let (slices, _) = slices.split_at(count);
    // A segment of its own for the head of a fetch response would wake the client twice.
    let more = match parts.next() {
        Some(OutgoingPart::File { .. }) => more_flag(),
        _ => SendFlags::empty(),
    };
    let sent = stream.try_io(Interest::WRITABLE, || {
        Ok(rustix::net::sendmsg(
            stream,
            slices,
            &mut SendAncillaryBuffer::default(),
            send_flags() | more,
        )?)
    });
    advance(queue, sent.map_err(Stop::Socket)?);
    Ok(())
}

/// Drops what was sent from the head of the queue.
fn advance(queue: &mut Queue, mut sent: usize) {
    while let Some(first) = queue.front_mut() {
        while let Some(OutgoingPart::Bytes(bytes)) = first.parts.front_mut() {
            if sent < bytes.len() {
                bytes.advance(sent);
                return;
            }
            sent -= bytes.len();
            first.parts.pop_front();
        }
        if !first.parts.is_empty() {
            return;
        }
        queue.pop_front();
    }
}

fn send_first_range(stream: &TcpStream, queue: &mut Queue) -> Result<(), Stop> {
    let Some(parts) = queue.front_mut().map(|first| &mut first.parts) else {
        return Ok(());
    };
    match parts.front_mut() {
        None | Some(OutgoingPart::Bytes(_)) => Ok(()),
        Some(OutgoingPart::Lost(reason)) => Err(Stop::Lost(std::mem::take(reason))),
        Some(part) => {
            let sent_all = send_range(stream, part)?;
            if sent_all {
                parts.pop_front();
            }
            Ok(())
        }
    }
}

/// Sends a piece of a range; says whether it was the last one.
fn send_range(stream: &TcpStream, part: &mut Part) -> Result<bool, Stop> {
    let OutgoingPart::File {
        pin,
        position,
        length,
        warm,
    } = part
    else {
        return Ok(true);
    };
    if !*warm && !is_warm(pin, *position, *length) {
        return Err(Stop::Cold);
    }
    *warm = true;
    let sent = send_file(stream, pin, position.0, (*length).min(MAX_SENDFILE_BYTES))
        .map_err(Stop::Socket)?;
    if sent == 0 {
        return Err(Stop::Lost(short(*position, *length)));
    }
    *position = position.plus(sent as u64);
    *length -= sent as u64;
    Ok(*length == 0)
}

fn short(position: Position, length: u64) -> String {
    format!("a file ended where {length} bytes from {position} on were to be sent")
}

#[cfg(target_os = "linux")]
fn send_file(stream: &TcpStream, file: &OpenFile, position: u64, length: u64) -> io::Result<usize> {
    stream.try_io(Interest::WRITABLE, || {
        let mut offset = position;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(rustix::fs::sendfile(
            stream,
            &file.file,
            Some(&mut offset),
            length,
        )?)
    })
}

#[cfg(not(target_os = "linux"))]
fn send_file(stream: &TcpStream, file: &OpenFile, position: u64, length: u64) -> io::Result<usize> {
    let mut buffer = vec![0; WARM_UP_BYTES.min(usize::try_from(length).unwrap_or(WARM_UP_BYTES))];
    let n = file.file.read_at(&mut buffer, position)?;
    buffer.truncate(n);
    if n == 0 {
        return Ok(0);
    }
    stream.try_write(&buffer)
}

/// A range that is in the page cache, or that may be waited for; `None` if it is cold.
fn read_small(
    file: &OpenFile,
    position: Position,
    length: u64,
    may_block: bool,
) -> Result<Option<Bytes>, String> {
    let mut buffer = vec![0; usize::try_from(length).unwrap_or_default()];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        let at = position.0 + filled as u64;
        let read = if may_block {
            file.file.read_at(rest, at)
        } else {
            read_now(&file.file, at, rest)
        };
        match read {
            Ok(0) => return Err(short(position, length)),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_cold(&error) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(Some(Bytes::from(buffer)))
}

/// Whether a large range is in the page cache, as far as a byte here and there can tell.
fn is_warm(file: &OpenFile, position: Position, length: u64) -> bool {
    let last = position.0 + length.saturating_sub(1);
    let mut at = position.0;
    loop {
        if read_now(&file.file, at, &mut [0]).is_err_and(|error| is_cold(&error)) {
            return false;
        }
        if at == last {
            return true;
        }
        at = (at + PROBE_BYTES).min(last);
    }
}

#[cfg(target_os = "linux")]
fn send_flags() -> SendFlags {
    SendFlags::NOSIGNAL | SendFlags::DONTWAIT
}

#[cfg(not(target_os = "linux"))]
fn send_flags() -> SendFlags {
    SendFlags::DONTWAIT
}

#[cfg(target_os = "linux")]
fn more_flag() -> SendFlags {
    SendFlags::MORE
}

#[cfg(not(target_os = "linux"))]
fn more_flag() -> SendFlags {
    SendFlags::empty()
}
