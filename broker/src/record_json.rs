//! A record as JSON. Bytes that are text are strings; bytes that are not are base64, under a name
//! that says so (`value_base64` instead of `value`): a script sees which, and nothing is lost.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::base64;

/// A header, by key and value.
pub(crate) type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// What a record holds beside its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordContent<'a> {
    /// `None` is null.
    pub(crate) key: Option<&'a [u8]>,
    /// `None` is null.
    pub(crate) value: Option<&'a [u8]>,
    /// In their order.
    pub(crate) headers: &'a [Header<'a>],
}

impl RecordContent<'_> {
    /// Adds `key`, `value` and `headers` to an object.
    pub(crate) fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        put_bytes(map, "key", "key_base64", self.key)?;
        put_bytes(map, "value", "value_base64", self.value)?;
        map.serialize_entry("headers", &Headers(self.headers))
    }
}

fn put_bytes<M: SerializeMap>(
    map: &mut M,
    name: &'static str,
    base64_name: &'static str,
    bytes: Option<&[u8]>,
) -> Result<(), M::Error> {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => map.serialize_entry(name, &()),
        Some((_, Ok(text))) => map.serialize_entry(name, text),
        Some((bytes, Err(_))) => map.serialize_entry(base64_name, &base64::encode(bytes)),
    }
}

struct Headers<'a>(&'a [Header<'a>]);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for header in self.0 {
            list.serialize_element(&OneHeader(*header))?;
        }
        list.end()
    }
}

struct OneHeader<'a>(Header<'a>);

impl Serialize for OneHeader<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, value) = self.0;
        let mut map = serializer.serialize_map(Some(2))?;
        put_bytes(&mut map, "key", "key_base64", Some(key))?;
        put_bytes(&mut map, "value", "value_base64", value)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Line<'a>(RecordContent<'a>);

    impl Serialize for Line<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            self.0.serialize_into(&mut map)?;
            map.end()
        }
    }

    #[test]
    fn text_null_and_bytes_are_told_apart() {
        let content = RecordContent {
            key: None,
            value: Some(&[0xff, 0]),
            headers: &[(b"a", Some(b"\"")), (b"b", None)],
        };
        assert_eq!(
            serde_json::to_string(&Line(content)).unwrap(),
            r#"{"key":null,"value_base64":"/wA=","headers":[{"key":"a","value":"\""},{"key":"b","value":null}]}"#
        );
    }
}
