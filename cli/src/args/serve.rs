//! The options of `serve`.

use super::parsers::{positive, whole};
use clap::Args;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The maximum time limit in seconds, one day.
const MOST_SECONDS: f64 = 86_400.0;

/// The maximum size of a body in MiB.
const MOST_MIB: usize = 4096;

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sparsegp serve houses.model --listen 127.0.0.1:8000")]
pub struct ServeArgs {
    /// Model file
    pub model: PathBuf,
    /// Address and port to listen on. With port 0 the program chooses a free port and prints it. For access from other machines, name an
    /// address outside the loopback interface, such as 0.0.0.0
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000", value_parser = address)]
    pub listen: SocketAddr,
    /// Names of hosts that requests may state in Host and Origin besides loopback addresses and the address that clients connect to,
    /// separated by commas. Other requests are refused, because a page of another site in a browser may send them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub allow_host: Vec<String>,
    /// Maximum size of the body of a request in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = |text: &str| whole(text, 1..=MOST_MIB))]
    pub max_body: usize,
    /// Maximum number of rows of a request
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub max_rows: usize,
    /// Time limit in seconds for receiving a request, for sending the answer, and for an idle connection
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub timeout: f64,
    /// Number of threads that predict; other threads receive requests and send answers [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Parses an address with a port. The address is IPv4, IPv6 in brackets, or localhost.
fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let wrong = "expected an address and a port, such as 127.0.0.1:8000 or [::1]:8000";
    local.map_or_else(|| text.parse().map_err(|_| wrong.to_owned()), Ok)
}

/// Parses a time limit in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.1..=MOST_SECONDS).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a number of seconds from 0.1 to {MOST_SECONDS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        for right in ["127.0.0.1:0", "[::1]:8000", "localhost:80", "0.0.0.0:8000"] {
            assert!(address(right).is_ok(), "{right}");
        }
        assert!(address("localhost:80").is_ok_and(|address| address.ip().is_loopback()));
        for wrong in ["", "8000", ":8000", "127.0.0.1", "localhost:99999", "example.org:80"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert!(seconds("nan").is_err() && seconds("0").is_err() && whole("0", 1..=MOST_MIB).is_err());
    }
}
