//! Lines of standard input, and the records they are.

use std::io::{self, BufRead, BufReader, Read};

use bytes::Bytes;
use odradek_core::client::{ProducerRecord, TopicName};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::base64;

/// Lines that came together, without their ends.
pub(super) type Chunk = io::Result<Vec<Bytes>>;

/// Most lines in a chunk.
const CHUNK_LINES: usize = 500;
/// Chunks that wait to be sent: the input is not read further ahead.
const CHUNKS: usize = 4;

/// Reads lines on a thread of its own, since reading a terminal or a pipe blocks.
#[derive(Debug)]
pub(super) struct LineReader;

impl LineReader {
    /// Starts reading standard input. The last chunk may be an error: of the system, or a line
    /// longer than `max_bytes`.
    pub(super) fn start(max_bytes: usize) -> io::Result<mpsc::Receiver<Chunk>> {
        let (sender, receiver) = mpsc::channel(CHUNKS);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || {
                let input = BufReader::with_capacity(256 << 10, io::stdin());
                read(input, max_bytes, |chunk| {
                    sender.blocking_send(chunk).is_ok()
                });
            })?;
        Ok(receiver)
    }
}

/// Reads lines to the end of the input, until one is too long, or until `take` wants no more. What
/// is there comes at once: a person at a terminal does not wait for the chunk to fill.
fn read<R: Read>(mut input: BufReader<R>, max_bytes: usize, mut take: impl FnMut(Chunk) -> bool) {
    let mut lines = Vec::new();
    loop {
        let line = match read_line(&mut input, max_bytes) {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => {
                if lines.is_empty() || take(Ok(lines)) {
                    take(Err(error));
                }
                return;
            }
        };
        lines.push(line);
        let more_is_there = input.buffer().contains(&b'\n');
        if (!more_is_there || lines.len() >= CHUNK_LINES) && !take(Ok(std::mem::take(&mut lines))) {
            return;
        }
    }
    if !lines.is_empty() {
        take(Ok(lines));
    }
}

fn read_line(input: &mut impl BufRead, max_bytes: usize) -> io::Result<Option<Bytes>> {
    let mut line = Vec::new();
    // The line's end, and a byte to see that it is too long.
    let limit = max_bytes as u64 + 2;
    if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    if line.len() > max_bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("longer than {max_bytes} bytes; --max-bytes allows more"),
        ));
    }
    Ok(Some(Bytes::from(line)))
}

/// The record of a line of text.
pub(super) fn from_text(
    topic: &TopicName,
    line: Bytes,
    separator: Option<&[u8]>,
    null_marker: Option<&[u8]>,
) -> ProducerRecord {
    let nullable = |bytes: Bytes| (Some(&*bytes) != null_marker).then_some(bytes);
    let at = separator.and_then(|separator| {
        let place = find(&line, separator)?;
        Some((place, place + separator.len()))
    });
    let (key, value) = match at {
        Some((end, begin)) => (nullable(line.slice(..end)), line.slice(begin..)),
        None => (None, line),
    };
    let mut record = ProducerRecord::new(topic, Bytes::new());
    record.key = key;
    record.value = nullable(value);
    record
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// The record of an object, as `odradek consume --format json` prints it.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn from_json(topic: &TopicName, line: &[u8]) -> Result<ProducerRecord, String> {
    let object: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let mut record = ProducerRecord::new(topic, Bytes::new());
    record.key = bytes_of(&object, "key")?;
    record.value = bytes_of(&object, "value")?;
    record.timestamp = number(&object, "timestamp")?.filter(|timestamp| *timestamp >= 0);
    record.partition = number(&object, "partition")?
        .map(|number| i32::try_from(number).map_err(|_| format!("no partition: {number}")))
        .transpose()?;
    record.headers = match object.get("headers") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(headers)) => headers.iter().map(header).collect::<Result<_, _>>()?,
        Some(_) => return Err("'headers' is no array".to_owned()),
    };
    Ok(record)
}

fn header(value: &Value) -> Result<(Bytes, Option<Bytes>), String> {
    let object = value.as_object().ok_or("a header is no object")?;
    let key = bytes_of(object, "key")?.ok_or("a header has no key")?;
    Ok((key, bytes_of(object, "value")?))
}

/// The field `name`, a string or null, or `name_base64`.
fn bytes_of(object: &Map<String, Value>, name: &str) -> Result<Option<Bytes>, String> {
    match object.get(name) {
        Some(Value::String(text)) => return Ok(Some(Bytes::copy_from_slice(text.as_bytes()))),
        None | Some(Value::Null) => {}
        Some(_) => return Err(format!("'{name}' is neither a string nor null")),
    }
    match object.get(&format!("{name}_base64")) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => base64::decode(text)
            .map(|bytes| Some(Bytes::from(bytes)))
            .ok_or_else(|| format!("'{name}_base64' is no base64")),
        Some(_) => Err(format!("'{name}_base64' is no string")),
    }
}

fn number(object: &Map<String, Value>, name: &str) -> Result<Option<i64>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_i64()
            .map(Some)
            .ok_or_else(|| format!("'{name}' is no whole number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> TopicName {
        TopicName::from("t")
    }

    fn lines(input: &[u8], max_bytes: usize) -> (Vec<Bytes>, Option<String>) {
        let (mut lines, mut error) = (Vec::new(), None);
        read(BufReader::new(input), max_bytes, |chunk| {
            match chunk {
                Ok(chunk) => lines.extend(chunk),
                Err(why) => error = Some(why.to_string()),
            }
            true
        });
        (lines, error)
    }

    #[test]
    fn lines_come_without_their_ends_and_the_last_needs_none() {
        let (found, error) = lines(b"a\n\nb\r\nc", 10);
        assert_eq!(found, ["a", "", "b\r", "c"]);
        assert_eq!(error, None);
        assert_eq!(lines(b"", 10).0, [""; 0]);
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error_after_those_before_it() {
        let (found, error) = lines(b"1234\n12345\n1", 4);
        assert_eq!(found, ["1234"]);
        assert!(error.unwrap().contains("longer than 4 bytes"));
        assert_eq!(lines(b"1234", 4).1, None);
    }

    #[test]
    fn a_key_comes_before_the_first_separator() {
        let read = |line: &'static str, null| {
            let record = from_text(&topic(), Bytes::from(line), Some(b"::"), null);
            (record.key, record.value)
        };
        let some = |text: &'static str| Some(Bytes::from(text));
        assert_eq!(read("a::b::c", None), (some("a"), some("b::c")));
        assert_eq!(read("a:b", None), (None, some("a:b")));
        assert_eq!(read("::", None), (some(""), some("")));
        assert_eq!(read("::", Some(b"".as_slice())), (None, None));
        assert_eq!(read("a::NULL", Some(b"NULL".as_slice())), (some("a"), None));
    }

    #[test]
    fn an_object_is_a_record() {
        let line = br#"{"topic":"x","partition":3,"offset":7,"timestamp":1000,"key":null,
            "value_base64":"/wA=","headers":[{"key":"h","value":"x"},{"key":"n","value":null}]}"#;
        let record = from_json(&topic(), line).unwrap();
        assert_eq!(&*record.topic, "t");
        assert_eq!(record.partition, Some(3));
        assert_eq!(record.timestamp, Some(1000));
        assert_eq!(record.key, None);
        assert_eq!(record.value.unwrap(), [0xff, 0].as_slice());
        assert_eq!(record.headers.len(), 2);
        assert_eq!(record.headers[1], (Bytes::from("n"), None));
    }

    #[test]
    fn what_is_no_record_is_said() {
        for (line, why) in [
            ("[1]", "not a JSON object"),
            ("{\"value\":1}", "'value' is neither"),
            ("{\"value_base64\":\"%\"}", "no base64"),
            ("{\"headers\":{}}", "no array"),
            ("{\"headers\":[{\"value\":\"x\"}]}", "no key"),
            ("{\"timestamp\":\"x\"}", "no whole number"),
        ] {
            let error = from_json(&topic(), line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
