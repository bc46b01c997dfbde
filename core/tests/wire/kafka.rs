//! The codec against the bytes of Kafka's own Java classes, in both directions.

use crate::golden;

use odradek_core::wire::{ApiKey, ErrorCode};
use serde_json::{Map, Value, json};

#[test]
fn every_version_of_every_message_is_there() {
    let golden = golden::all();
    for &api in ApiKey::ALL {
        for version in api.versions().min..=api.versions().max {
            for (is_request, case) in [
                (true, "defaults"),
                (true, "full"),
                (false, "defaults"),
                (false, "full"),
            ] {
                assert!(
                    golden.iter().any(|g| g.api == api
                        && g.is_request == is_request
                        && g.version == version
                        && g.case == case),
                    "{api} v{version} {case} is missing"
                );
            }
        }
    }
}

#[test]
fn kafkas_bytes_are_decoded_and_come_back_the_same() {
    for g in golden::all() {
        let body = g
            .decode()
            .unwrap_or_else(|error| panic!("{}: {error}", g.title()));
        assert_eq!(body.encode(g.version), g.bytes, "{}: {body:#?}", g.title());
    }
}

#[test]
fn every_field_has_the_value_that_kafka_gave_it() {
    for g in golden::all() {
        let text = format!("{:?}", g.decode().unwrap());
        let ours = DebugText { rest: &text }.value();
        assert_same(&g.title(), g.name, &ours, &g.json);
    }
}

#[test]
fn what_a_version_lacks_has_kafkas_default() {
    // In the newest version, which has the most fields, the defaults case shows them all; in an
    // older one, what the JSON does not show must be that same default.
    let golden = golden::all();
    for g in golden.iter().filter(|g| g.case == "defaults") {
        let newest = golden
            .iter()
            .find(|n| n.name == g.name && n.case == g.case && n.version == g.api.versions().max)
            .unwrap();
        let ours = DebugText {
            rest: &format!("{:?}", g.decode().unwrap()),
        }
        .value();
        for (field, ours) in ours.as_object().unwrap() {
            if g.json.get(field).is_none()
                && let Some(default) = newest.json.get(field)
            {
                assert_same(&g.title(), field, ours, default);
            }
        }
    }
}

#[test]
fn header_versions_are_kafkas() {
    for g in golden::all() {
        let ours = if g.is_request {
            g.api.request_header_version(g.version)
        } else {
            g.api.response_header_version(g.version)
        };
        assert_eq!(ours, g.header_version, "{}", g.title());
    }
}

#[test]
fn error_codes_are_kafkas() {
    let ours: Vec<String> = ErrorCode::ALL
        .iter()
        .map(|code| format!("{}\t{code:?}\t{}", code.0, code.is_retriable()))
        .collect();
    let kafkas: Vec<&str> = include_str!("../golden/errors-4.3.1.txt").lines().collect();
    assert_eq!(ours, kafkas);
}

/// Every field that Kafka's JSON shows is the same in ours.
pub(crate) fn assert_same(title: &str, path: &str, ours: &Value, kafkas: &Value) {
    match (ours, kafkas) {
        (Value::Object(ours), Value::Object(kafkas)) => {
            for (name, kafka) in kafkas {
                // Without the bytes of records, the JSON has their length.
                let field = match name.strip_suffix("SizeInBytes") {
                    Some(field) if !ours.contains_key(name) => field,
                    _ => name,
                };
                let our = ours
                    .get(field)
                    .unwrap_or_else(|| panic!("{}: no {path}.{name}", title));
                assert_same(title, &format!("{path}.{name}"), our, kafka);
            }
        }
        (Value::Array(ours), Value::Array(kafkas)) if ours.len() == kafkas.len() => {
            for (our, kafka) in ours.iter().zip(kafkas) {
                assert_same(title, path, our, kafka);
            }
        }
        _ => assert_eq!(ours, kafkas, "{}: {path}", title),
    }
}

/// What `Debug` prints of a message, turned into the JSON that Kafka would write.
pub(crate) struct DebugText<'a> {
    pub(crate) rest: &'a str,
}

impl<'a> DebugText<'a> {
    pub(crate) fn value(mut self) -> Value {
        let value = self.next();
        assert_eq!(self.rest, "");
        value
    }

    fn next(&mut self) -> Value {
        if self.skip("[") {
            return self.list("]").into();
        }
        if self.rest.starts_with('"') {
            return self.string();
        }
        if self.skip("b\"") {
            return json!(base64(&self.bytes()));
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.skip("(") {
            // Some(x), or the variant of a body.
            return self.list(")").remove(0);
        }
        if self.skip(" { ") {
            return self.fields();
        }
        match token {
            "None" => Value::Null,
            "true" => json!(true),
            "false" => json!(false),
            // A topic id is the only token of 22 characters.
            id if id.len() == 22 => json!(id),
            number if number.parse::<i64>().is_ok() => {
                self.skip(" B");
                json!(number.parse::<i64>().unwrap())
            }
            code => json!(error_code(code)),
        }
    }

    fn fields(&mut self) -> Value {
        let mut fields = Map::new();
        while !self.skip(" }") {
            self.skip(", ");
            let (name, rest) = self.rest.split_once(": ").unwrap();
            self.rest = rest;
            fields.insert(camel_case(name), self.next());
        }
        fields.into()
    }

    fn list(&mut self, end: &str) -> Vec<Value> {
        let mut elements = Vec::new();
        while !self.skip(end) {
            self.skip(", ");
            elements.push(self.next());
        }
        elements
    }

    fn string(&mut self) -> Value {
        let end = 1 + self.rest[1..].find('"').expect("no fixture has a quote");
        let (string, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        json!(&string[1..end])
    }

    /// What `Bytes` shows, up to its closing quote.
    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            let mut next = || characters.next().unwrap().1;
            bytes.push(match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return bytes;
                }
                '\\' => match next() {
                    'x' => u8::from_str_radix(&String::from_iter([next(), next()]), 16).unwrap(),
                    '0' => 0,
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    plain => plain as u8,
                },
                plain => plain as u8,
            });
        }
        panic!("no closing quote");
    }

    fn skip(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

/// The form in which Kafka's JSON shows bytes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .chain(&[0, 0])
            .take(3)
            .fold(0, |bits, &byte| bits << 8 | usize::from(byte));
        for digit in 0..4 {
            text.push(if digit <= chunk.len() {
                char::from(DIGITS[bits >> (18 - 6 * digit) & 63])
            } else {
                '='
            });
        }
    }
    text
}

fn error_code(name: &str) -> i16 {
    if let Some(number) = name.strip_prefix("ERROR_") {
        return number.parse().unwrap();
    }
    ErrorCode::ALL
        .iter()
        .find(|code| code.name() == Some(name))
        .unwrap_or_else(|| panic!("what is {name}?"))
        .0
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap().to_owned();
    for word in words {
        camel.push_str(&word[..1].to_uppercase());
        camel.push_str(&word[1..]);
    }
    camel
}
