//! The smallest program that promises durability: it appends records to a file, flushes each, and
//! then says so. The power-cut rig proves itself on it: with flushes nothing acknowledged is lost,
//! and without them the rig notices.
//!
//! Usage: `stand-in DIR COUNT`. Record `n` is 200 bytes that depend on `n`; `n` is printed once it
//! is durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().expect("the first argument is the folder"));
    let count: u32 = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok())
        .expect("the second argument is the number of records");
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("log"))?;
    File::open(&folder)?.sync_all()?;
    let mut acknowledgements = io::stdout().lock();
    for number in 0..count {
        log.write_all(&record(number))?;
        log.sync_data()?;
        writeln!(acknowledgements, "{number}")?;
        acknowledgements.flush()?;
    }
    Ok(())
}

fn record(number: u32) -> [u8; 200] {
    let mut bytes = [number as u8 | 1; 200];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}
