//! The bare loops answer what a broker would, so that one load generator serves for both.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use super::broker::{Client, PRODUCE_VERSION, frame, produce_request};
use crate::bare::{BareOptions, BareServer};

fn start(directory: &Path, flush: bool, segment_bytes: u64) -> SocketAddr {
    let server = BareServer::bind(&BareOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        directory: directory.to_owned(),
        flush,
        segment_bytes,
    })
    .unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || server.run());
    address
}

#[test]
fn offsets_are_dense_with_and_without_flushes_and_across_files() {
    for flush in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let address = start(directory.path(), flush, 400);
        let mut client = Client::connect(address);
        for expected in [0, 2, 4, 6, 8] {
            assert_eq!(
                client.produce(&[&[1; 100], &[2; 20]]).unwrap(),
                Ok(expected)
            );
        }
    }
}

#[test]
fn a_large_batch_arrives_in_pieces_and_is_fetched_whole() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), false, 1 << 30);
    let mut client = Client::connect(address);
    let large = vec![3; 700_000];
    for n in 0..3 {
        assert_eq!(client.produce(&[&large]).unwrap(), Ok(n));
    }
    let (bytes, _) = client.fetch(1, 0);
    assert_eq!(bytes.get(..8), Some(&1i64.to_be_bytes()[..]));
    assert!(bytes.len() > large.len() && bytes.len() < large.len() + 100);
}

#[test]
fn a_damaged_batch_is_not_answered() {
    let directory = tempfile::tempdir().unwrap();
    let address = start(directory.path(), false, 1 << 30);
    let mut bytes = frame(PRODUCE_VERSION, &produce_request(&[&[7; 100]])).to_vec();
    let record = bytes.len() - 20;
    bytes[record] ^= 1;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&bytes).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "closed");
}
