//! `HOST:PORT` on the command line and in configs.

use odradek_core::input::Endpoint;

/// Reads `HOST:PORT`; the host may be empty, and an IPv6 address is in brackets.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    let wrong =
        || format!("'{text}' is no address: write HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(wrong)?,
        None if host.contains(':') => return Err(wrong()),
        None => host,
    };
    Ok(Endpoint {
        host: host.to_owned(),
        port,
    })
}

/// Reads the address of a broker to connect to: host and port must be there.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn parse_bootstrap(text: &str) -> Result<Endpoint, String> {
    let endpoint = parse_endpoint(text.trim())?;
    if endpoint.host.is_empty() || endpoint.port == 0 {
        return Err(format!("'{text}' names no host or no port to connect to"));
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text| parse_endpoint(text).map(|endpoint| (endpoint.host, endpoint.port));
        assert_eq!(read("a.b:9092"), Ok(("a.b".to_owned(), 9092)));
        assert_eq!(read("[::1]:1"), Ok(("::1".to_owned(), 1)));
        assert_eq!(read(":9092"), Ok((String::new(), 9092)));
        for wrong in ["9092", "a", "a:b", "a:70000", "::1:9092", "[::1:9092", ""] {
            assert!(parse_endpoint(wrong).is_err(), "{wrong}");
        }
        assert!(parse_bootstrap(":9092").is_err());
        assert!(parse_bootstrap("a:0").is_err());
    }
}
