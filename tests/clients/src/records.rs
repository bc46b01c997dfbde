//! Records that are easy to lose a part of: keys and values that are absent, empty, binary or long,
//! headers that repeat a name, have no value, or an empty one.

use crate::chance::Chance;

/// One record as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRecord {
    /// `None` is Kafka's null, which is not the empty key.
    pub key: Option<Vec<u8>>,
    /// `None` is Kafka's null, which is not the empty value.
    pub value: Option<Vec<u8>>,
    /// In order; names may repeat, and a value may be null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Record `index` of the family `family`: always the same one.
pub fn odd_record(family: u64, index: u64) -> TestRecord {
    let mut chance = Chance::of(family, index);
    let key = match chance.below(8) {
        0 => None,
        1 => Some(Vec::new()),
        _ => Some(format!("key-{}", index % 1000).into_bytes()),
    };
    let value = match chance.below(16) {
        0 => None,
        1 => Some(Vec::new()),
        2 => Some(binary(&mut chance, 3000)),
        3..8 => Some(binary(&mut chance, 120)),
        // Text that repeats, so that compression has something to find.
        _ => Some(
            format!("record {index} says {index} ")
                .repeat(1 + chance.below(8) as usize)
                .into_bytes(),
        ),
    };
    let headers = match chance.below(4) {
        0 => Vec::new(),
        1 => vec![("trace".to_owned(), Some(index.to_be_bytes().to_vec()))],
        2 => vec![
            ("empty".to_owned(), Some(Vec::new())),
            ("null".to_owned(), None),
        ],
        _ => vec![
            ("twice".to_owned(), Some(b"first".to_vec())),
            (String::new(), Some(binary(&mut chance, 40))),
            ("twice".to_owned(), Some(b"second".to_vec())),
        ],
    };
    TestRecord {
        key,
        value,
        headers,
    }
}

/// Up to `max_len` bytes of any value.
pub fn binary(chance: &mut Chance, max_len: u64) -> Vec<u8> {
    let len = chance.below(max_len + 1) as usize;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&chance.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
