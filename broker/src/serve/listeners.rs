//! Kafka's `listeners` and `advertised.listeners`, and addresses on the command line.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use odradek_core::input::Endpoint;

use crate::address::parse_endpoint;

/// A listener: its name and where it is. Kafka's names are also protocols, unless mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Such as `PLAINTEXT`.
    pub(super) name: String,
    /// Host, empty for all interfaces, and port.
    pub(super) endpoint: Endpoint,
}

/// Reads `NAME://HOST:PORT`, separated by commas.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn parse_listeners(text: &str) -> Result<Vec<Listener>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|listener| !listener.is_empty())
        .map(|listener| {
            let (name, address) = listener.split_once("://").ok_or_else(|| {
                format!("'{listener}' is no listener: write PLAINTEXT://HOST:PORT")
            })?;
            Ok(Listener {
                name: name.to_ascii_uppercase(),
                endpoint: parse_endpoint(address)?,
            })
        })
        .collect()
}

/// The one listener that clients use. Those that Kafka keeps for its controllers have no use here;
/// their names come back for a warning.
///
/// # Errors
/// If there is none or more than one, or one that is not PLAINTEXT.
pub(super) fn client_listener(
    listeners: Vec<Listener>,
    controllers: &str,
    protocols: &str,
) -> Result<(Endpoint, Vec<String>), String> {
    let is_controller = |listener: &Listener| {
        controllers
            .split(',')
            .any(|name| name.trim().eq_ignore_ascii_case(&listener.name))
    };
    let (unused, clients): (Vec<_>, Vec<_>) = listeners.into_iter().partition(is_controller);
    let mut clients = clients.into_iter();
    let listener = clients.next().ok_or("it names no listener for clients")?;
    if let Some(second) = clients.next() {
        return Err(format!(
            "Odradek has one listener, and these are more ({}, {}): leave one",
            listener.name, second.name
        ));
    }
    let protocol = protocols
        .split(',')
        .filter_map(|entry| entry.trim().split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case(&listener.name))
        .map_or(listener.name.as_str(), |(_, protocol)| protocol);
    if !protocol.eq_ignore_ascii_case("PLAINTEXT") {
        return Err(format!(
            "the listener {} speaks {protocol}; only PLAINTEXT exists here",
            listener.name
        ));
    }
    let unused = unused.into_iter().map(|listener| listener.name).collect();
    Ok((listener.endpoint, unused))
}

/// Reads the address that clients are told: a wildcard would send them nowhere.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn check_advertised(endpoint: Endpoint) -> Result<Endpoint, String> {
    let wildcard = endpoint
        .host
        .parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_unspecified());
    if endpoint.host.is_empty() || wildcard {
        return Err(format!(
            "'{endpoint}' is an address that no client can connect to: name the host as clients \
             know it, or leave it out, and each client is told the address it connected to"
        ));
    }
    if endpoint.port == 0 {
        return Err("port 0 is none that clients can connect to".to_owned());
    }
    Ok(endpoint)
}

/// The socket address of an endpoint; an empty host is all interfaces.
///
/// # Errors
/// If the host has no address.
pub(super) fn resolve(endpoint: &Endpoint) -> Result<SocketAddr, String> {
    if endpoint.host.is_empty() {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, endpoint.port)));
    }
    let addresses = (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .map_err(|error| {
            format!(
                "the host '{}' has no address ({error}): write an address of this machine, or \
                 0.0.0.0 for all",
                endpoint.host
            )
        })?;
    // A name such as localhost has one of each kind; clients try the older one first.
    let mut addresses: Vec<_> = addresses.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses
        .into_iter()
        .next()
        .ok_or_else(|| format!("the host '{}' has no address", endpoint.host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(host: &str, port: u16) -> Endpoint {
        Endpoint {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn no_host_is_all_interfaces() {
        assert_eq!(resolve(&endpoint("", 7)).unwrap().to_string(), "0.0.0.0:7");
    }

    #[test]
    fn a_wildcard_is_never_advertised() {
        for wrong in ["0.0.0.0:9092", "[::]:9092", ":9092", "host:0"] {
            let endpoint = parse_endpoint(wrong).unwrap();
            assert!(check_advertised(endpoint).is_err(), "{wrong}");
        }
        assert!(check_advertised(endpoint("broker", 9092)).is_ok());
    }

    #[test]
    fn the_listener_for_clients_is_found_in_kafkas_own_file() {
        let listeners = parse_listeners("PLAINTEXT://:9092, CONTROLLER://:9093").unwrap();
        let found = client_listener(listeners.clone(), "CONTROLLER", "").unwrap();
        assert_eq!(found, (endpoint("", 9092), vec!["CONTROLLER".to_owned()]));
        let error = client_listener(listeners, "", "").unwrap_err();
        assert!(error.contains("CONTROLLER"), "{error}");
    }

    #[test]
    fn only_plaintext_is_spoken() {
        let read = |text| parse_listeners(text).unwrap();
        assert!(client_listener(read("SSL://:1"), "", "").is_err());
        assert!(client_listener(read("IN://:1"), "", "IN:PLAINTEXT").is_ok());
        assert!(client_listener(read("IN://:1"), "", "IN:SASL_SSL").is_err());
        assert!(client_listener(read(""), "", "").is_err());
    }
}
