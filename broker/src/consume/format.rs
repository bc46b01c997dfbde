//! How a record is printed.

use std::str::FromStr;

use odradek_core::client::ConsumerRecord;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::escape::unescape;
use crate::failure::Failure;
use crate::output::Output;
use crate::record_json::{Header, RecordContent};

/// How a record is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The value and a line end.
    Text,
    /// An object a line.
    Json,
    /// As the user says.
    Template(Vec<Piece>),
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    KeyLength,
    Value,
    ValueLength,
    Headers,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            template if template.contains('%') => parse_template(template).map(Self::Template),
            _ => Err("say text, json, or a template with a %".to_owned()),
        }
    }
}

fn parse_template(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        literal(&mut pieces, &unescape(before)?);
        let mut chars = after.chars();
        match chars.next() {
            Some('t') => pieces.push(Piece::Topic),
            Some('p') => pieces.push(Piece::Partition),
            Some('o') => pieces.push(Piece::Offset),
            Some('T') => pieces.push(Piece::Timestamp),
            Some('k') => pieces.push(Piece::Key),
            Some('K') => pieces.push(Piece::KeyLength),
            Some('s') => pieces.push(Piece::Value),
            Some('S') => pieces.push(Piece::ValueLength),
            Some('h') => pieces.push(Piece::Headers),
            Some('%') => literal(&mut pieces, b"%"),
            Some(other) => return Err(format!("%{other} means nothing; %% is a percent sign")),
            None => return Err("a % at the end; %% is a percent sign".to_owned()),
        }
        rest = chars.as_str();
    }
    literal(&mut pieces, &unescape(rest)?);
    Ok(pieces)
}

fn literal(pieces: &mut Vec<Piece>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if let Some(Piece::Literal(last)) = pieces.last_mut() {
        last.extend_from_slice(bytes);
    } else {
        pieces.push(Piece::Literal(bytes.to_vec()));
    }
}

impl Format {
    /// Prints a record. In text, the key and `separator` come first if there is one; `null` stands
    /// for what is null.
    pub(super) fn write(
        &self,
        out: &mut Output,
        record: &ConsumerRecord,
        separator: Option<&[u8]>,
        null: &[u8],
    ) -> Result<(), Failure> {
        let key = record.key.as_deref();
        let value = record.value.as_deref();
        match self {
            Self::Text => {
                if let Some(separator) = separator {
                    out.bytes(key.unwrap_or(null))?;
                    out.bytes(separator)?;
                }
                out.bytes(value.unwrap_or(null))?;
                out.bytes(b"\n")
            }
            Self::Json => out.json(&JsonRecord(record)),
            Self::Template(pieces) => {
                let length = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
                for piece in pieces {
                    match piece {
                        Piece::Literal(bytes) => out.bytes(bytes)?,
                        Piece::Topic => out.bytes(record.topic.as_bytes())?,
                        Piece::Partition => out.text(record.partition)?,
                        Piece::Offset => out.text(record.offset)?,
                        Piece::Timestamp => out.text(record.timestamp)?,
                        Piece::Key => out.bytes(key.unwrap_or(null))?,
                        Piece::KeyLength => out.text(length(key))?,
                        Piece::Value => out.bytes(value.unwrap_or(null))?,
                        Piece::ValueLength => out.text(length(value))?,
                        Piece::Headers => write_headers(out, record, null)?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// `a=1,b=2`, as kcat prints them.
fn write_headers(out: &mut Output, record: &ConsumerRecord, null: &[u8]) -> Result<(), Failure> {
    for (at, (key, value)) in record.headers.iter().enumerate() {
        if at > 0 {
            out.bytes(b",")?;
        }
        out.bytes(key)?;
        out.bytes(b"=")?;
        out.bytes(value.as_deref().unwrap_or(null))?;
    }
    Ok(())
}

struct JsonRecord<'a>(&'a ConsumerRecord);

impl Serialize for JsonRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.0;
        let headers: Vec<Header<'_>> = record
            .headers
            .iter()
            .map(|(key, value)| (&**key, value.as_deref()))
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("topic", &*record.topic)?;
        map.serialize_entry("partition", &record.partition)?;
        map.serialize_entry("offset", &record.offset.0)?;
        map.serialize_entry("timestamp", &record.timestamp)?;
        RecordContent {
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        }
        .serialize_into(&mut map)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_piece_by_piece() {
        let format: Format = r"%t[%p]@%o %k=%s 100%%\n".parse().unwrap();
        let literal = |text: &str| Piece::Literal(text.as_bytes().to_vec());
        assert_eq!(
            format,
            Format::Template(vec![
                Piece::Topic,
                literal("["),
                Piece::Partition,
                literal("]@"),
                Piece::Offset,
                literal(" "),
                Piece::Key,
                literal("="),
                Piece::Value,
                literal(" 100%\n"),
            ])
        );
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for wrong in ["xml", "%q", "%", r"%s\q"] {
            assert!(wrong.parse::<Format>().is_err(), "{wrong}");
        }
    }
}
