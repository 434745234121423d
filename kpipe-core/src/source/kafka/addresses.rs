//! Addresses of brokers, checked before anything is asked of the network: librdkafka takes nearly
//! anything and reports what comes of it as an unreachable broker.

use std::net::Ipv6Addr;

use crate::error::Error;

const ACCEPTED: &str = "must be host:port, separated by commas, with a port from 1 to 65535 (9092 if \
                        there is none) and no scheme: encryption is the option `security.protocol`";

/// Refuses a list that names no broker, and addresses that cannot be any.
pub(super) fn check(brokers: &str) -> Result<(), Error> {
    let mut addresses =
        brokers.split(',').map(str::trim).filter(|part| !part.is_empty()).peekable();
    if addresses.peek().is_none() {
        return Err(Error::config("brokers", format_args!("{brokers:?}"), ACCEPTED));
    }
    match addresses.find(|address| !is_address(address)) {
        Some(wrong) => Err(Error::config("brokers", wrong, ACCEPTED)),
        None => Ok(()),
    }
}

fn is_address(address: &str) -> bool {
    // librdkafka knows its own names of protocols as schemes.
    let address = match address.split_once("://") {
        Some((scheme, rest)) if is_protocol(scheme) => rest,
        Some(_) => return false,
        None => address,
    };
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => match port.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None => return false,
        },
        // More than one colon without brackets is an IPv6 address without a port.
        None if address.matches(':').count() > 1 => return address.parse::<Ipv6Addr>().is_ok(),
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let host_is_fine = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    host_is_fine && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_protocol(scheme: &str) -> bool {
    ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
        .iter()
        .any(|p| scheme.eq_ignore_ascii_case(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_librdkafka_takes_them() {
        for brokers in [
            "localhost:9092",
            "a:1,b:65535",
            " a:9092 , b ",
            "10.0.0.1:9092,",
            "[::1]:9092",
            "[::1]",
            "::1",
            "SASL_SSL://broker:9093",
            "under_score.example:9092",
        ] {
            check(brokers).unwrap_or_else(|error| panic!("{brokers}: {error}"));
        }
    }

    #[test]
    fn what_can_be_no_broker_is_refused_by_name() {
        for (brokers, wrong) in [
            ("", "\"\""),
            (" , ", "\" , \""),
            ("kafka://localhost:9092", "kafka://localhost:9092"),
            ("http://localhost:9092", "http://localhost:9092"),
            ("a:9092,localhost:99999999", "localhost:99999999"),
            ("localhost:0", "localhost:0"),
            ("localhost:port", "localhost:port"),
            ("localhost:", "localhost:"),
            (":9092", ":9092"),
            ("[::1]9092", "[::1]9092"),
            ("a b:9092", "a b:9092"),
            ("localhost:9092/path", "localhost:9092/path"),
            ("a:9092;b:9092", "a:9092;b:9092"),
        ] {
            let text = check(brokers).unwrap_err().to_string();
            assert!(text.starts_with(&format!("brokers = {wrong}: must be host:port")), "{text}");
        }
    }
}
