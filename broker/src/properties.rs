//! Java's properties files, as Kafka's `server.properties` is one.

/// A property and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    /// Its key.
    pub(crate) key: String,
    /// Its value, without the spaces around it.
    pub(crate) value: String,
    /// The line on which it begins, from 1.
    pub(crate) line: usize,
}

/// Reads a properties file: `key=value`, `key: value` or `key value`, comments with `#` or `!`, a
/// backslash before a line's end to go on in the next, and Java's escapes.
///
/// # Errors
/// An escape that is none, with its line.
pub(crate) fn parse(text: &str) -> Result<Vec<Property>, String> {
    let mut properties = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut logical = line.trim_start().to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while goes_on(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start());
        }
        let line = index + 1;
        let (key, value) = split(&logical);
        properties.push(Property {
            key: unescape(key).map_err(|why| format!("line {line}: {why}"))?,
            value: unescape(value.trim_end()).map_err(|why| format!("line {line}: {why}"))?,
            line,
        });
    }
    Ok(properties)
}

/// Whether an odd number of backslashes ends the line.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits at the first `=`, `:` or space that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (c == '=' || c == ':' || c.is_whitespace());
        escaped = c == '\\' && !escaped;
        ends
    });
    let Some((key, rest)) = end.and_then(|end| line.split_at_checked(end)) else {
        return (line, "");
    };
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('u') => {
                let digits = chars.as_str().get(..4).unwrap_or_default();
                let c = u32::from_str_radix(digits, 16)
                    .ok()
                    .and_then(char::from_u32);
                out.push(c.ok_or("\\u needs the four hexadecimal digits of a character")?);
                chars.nth(3);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_like_kafkas_is_read() {
        let text = "# comment\n\n! another\nnode.id=1\n  log.dirs = /tmp/a b  \nkey: value\nname value\n\
                    listeners=PLAINTEXT://:9092,\\\n    CONTROLLER://:9093\nempty=\nx=a\\=b\\u00e4\\\\\n";
        let found = parse(text).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|p| (p.line, p.key.as_str(), p.value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (4, "node.id", "1"),
                (5, "log.dirs", "/tmp/a b"),
                (6, "key", "value"),
                (7, "name", "value"),
                (8, "listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
                (10, "empty", ""),
                (11, "x", "a=bä\\"),
            ]
        );
    }

    #[test]
    fn an_escape_that_is_none_names_its_line() {
        assert!(parse("a=1\nb=\\u12").unwrap_err().contains("line 2"));
    }
}
