//! The names of hosts that requests may state, so that pages of other sites cannot use the server through a browser.
//!
//! A browser sends the site of a page as `Origin`. A site whose name resolves to the loopback address (DNS rebinding) sends its name as `Host`.

use super::answer::Answer;
use std::net::IpAddr;

/// The names that requests may state in addition to loopback addresses and the address to which the client connected.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    pub fn new(names: &[String]) -> Hosts {
        Hosts(names.iter().map(|name| name.to_lowercase()).collect())
    }

    /// Returns the refusal of a request to this address, if one of the values of its fields Host and Origin is not allowed.
    pub fn refusal(&self, values: &[String], address: IpAddr) -> Option<Answer> {
        let foreign = values.iter().find(|value| !self.allows(value, address))?;
        let message =
            format!("the request is for or from {foreign:?}, expected a loopback address or an allowed host");
        Some(Answer::error(403, &message).with_hint("start the server with --allow-host NAME"))
    }

    /// Returns true if a value such as `localhost:8000` or `http://[::1]:8000` names an allowed host.
    fn allows(&self, value: &str, address: IpAddr) -> bool {
        let value = value.to_lowercase();
        let host = value.strip_prefix("http://").or(value.strip_prefix("https://")).unwrap_or(&value);
        let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some(parts) => parts,
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(digits);
        let is_own = || host.parse().is_ok_and(|known: IpAddr| known.is_loopback() || known == address);
        is_port && (host == "localhost" || is_own() || self.0.iter().any(|known| known == host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn only_loopback_and_listed_hosts_are_allowed() {
        let (hosts, address) =
            (Hosts::new(&["Models.example".to_owned()]), Ipv4Addr::new(10, 0, 0, 7).into());
        let right = "localhost LOCALHOST:8000 127.0.0.1:8000 127.9.9.9 [::1]:8000 http://localhost:3000 \
            https://[::1] 10.0.0.7:80 models.example:443 https://models.EXAMPLE";
        for right in right.split_whitespace() {
            assert!(hosts.allows(right, address), "{right}");
        }
        let wrong = "null evil.example http://evil.example:8000 localhost.evil.example \
            127.0.0.1.evil.example 10.0.0.8 [::2]:8000 http://localhost@evil.example \
            http://localhost:80@evil.example file://";
        for wrong in wrong.split_whitespace().chain([""]) {
            assert!(!hosts.allows(wrong, address), "{wrong}");
        }
    }
}
