//! Bytes on a terminal: text as it is, everything else escaped; and the escapes that options take.

use std::fmt;

/// Shows bytes on one line: control characters, backslashes and what is not UTF-8 are escaped.
pub(crate) struct Printable<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    '\t' => f.write_str("\\t")?,
                    '\\' => f.write_str("\\\\")?,
                    c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                    c => fmt::Write::write_char(f, c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Reads `\n`, `\t`, `\r`, `\0`, `\\` and `\xNN` in an option's text.
///
/// # Errors
/// A backslash before anything else, in words.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let mut chars = after.chars();
        match chars.next() {
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('r') => bytes.push(b'\r'),
            Some('0') => bytes.push(0),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits = chars.as_str().get(..2).unwrap_or_default();
                let byte = u8::from_str_radix(digits, 16)
                    .map_err(|_| "\\x needs two hexadecimal digits".to_owned())?;
                bytes.push(byte);
                chars.nth(1);
            }
            Some(other) => {
                return Err(format!(
                    "\\{other} is no escape; write \\\\ for a backslash"
                ));
            }
            None => return Err("a backslash at the end; write \\\\ for one".to_owned()),
        }
        rest = chars.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_escaped() {
        let shown = Printable(b"a\xc3\xa4\n\\\x1b\xff").to_string();
        assert_eq!(shown, "aä\\n\\\\\\u{1b}\\xff");
    }

    #[test]
    fn escapes_of_options_are_read() {
        assert_eq!(unescape(r"a\tb\x00\xfFc\\").unwrap(), b"a\tb\0\xffc\\");
        for wrong in [r"\q", "\\", r"\x1", r"\xg0"] {
            assert!(unescape(wrong).is_err(), "{wrong}");
        }
    }
}
