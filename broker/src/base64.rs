//! Base64 (RFC 4648, with padding): how JSON output carries bytes that are no text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of some bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut bits = 0;
        for place in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(place).copied().unwrap_or(0));
        }
        for place in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() {
                letter as char
            } else {
                '='
            });
        }
    }
    text
}

/// The bytes of a text; `None` if it is not one that [`encode`] writes.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (quads, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(quads.len() * 3);
    for (index, quad) in quads.iter().enumerate() {
        let padding = quad
            .iter()
            .rev()
            .take_while(|letter| **letter == b'=')
            .count();
        if padding > 2 || (padding > 0 && index + 1 < quads.len()) {
            return None;
        }
        let mut bits = 0;
        for letter in quad.iter().take(4 - padding) {
            let value = ALPHABET.iter().position(|known| known == letter)?;
            bits = bits << 6 | value as u32;
        }
        bits <<= 6 * padding;
        let [_, three @ ..] = bits.to_be_bytes();
        bytes.extend(three.iter().take(3 - padding));
    }
    // Bits that the last letter has to spare must be zero, or two texts would mean the same.
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in [
            "Z", "Zg", "Zg=", "Zg===", "Zh==", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm9\n",
        ] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
