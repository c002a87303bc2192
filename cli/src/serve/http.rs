//! A connection of HTTP/1.1, which reads requests within limits of size and time, and writes answers; and the hosts that requests may state.
//!
//! httparse parses the head of a request. A body needs a `Content-Length`. Chunked bodies are refused, so that the end of a request is
//! never ambiguous.
//!
//! A browser sends the site of a page as `Origin`. A site whose name resolves to the loopback address (DNS rebinding) sends its name as
//! `Host`. [`Hosts`] refuses both, so that pages of other sites cannot use the server through a browser.

use serde_json::json;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

const MOST_HEAD: usize = 16 << 10;

const MOST_FIELDS: usize = 64;

const READ: usize = 16 << 10;

/// The time for which the bytes of a refused client are still read, so that it receives the answer instead of a reset connection.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body: usize,
    /// The time limit for receiving a request, for writing an answer, and for waiting between two requests.
    pub time: Duration,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// The values of the header fields Host and Origin.
    pub hosts: Vec<String>,
    pub body: Vec<u8>,
    /// True if the client keeps the connection open.
    pub keep_alive: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    request: Request,
    size: usize,
    body: usize,
    /// True if the client waits for `100 Continue` before it sends the body.
    waits: bool,
}

pub struct Connection {
    stream: TcpStream,
    /// Bytes that were received and not yet parsed.
    buffer: Vec<u8>,
    limits: Limits,
}

impl Connection {
    pub fn new(stream: TcpStream, limits: Limits) -> Connection {
        // Each answer is written in one piece, so waiting for more bytes would only delay it.
        let _ = stream.set_nodelay(true);
        Connection { stream, buffer: Vec::new(), limits }
    }

    pub fn address(&self) -> IpAddr {
        self.stream.local_addr().map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
    }

    /// Waits for the first byte of a request; returns false if the client closed the connection or sent nothing in time.
    pub fn wait(&mut self) -> bool {
        let deadline = Instant::now() + self.limits.time;
        !self.buffer.is_empty() || self.read(deadline).is_ok_and(|count| count > 0)
    }

    /// Receives the request whose first byte has arrived. Returns `None` if the client closed the connection, and as an error the answer to a
    /// request that is malformed, too large or too slow, after which the connection must be closed.
    pub fn receive(&mut self) -> Result<Option<Request>, Answer> {
        let deadline = Instant::now() + self.limits.time;
        let head = loop {
            let head = parse(&self.buffer)?;
            if head.as_ref().map_or(self.buffer.len(), |head| head.size) > MOST_HEAD {
                return Err(Answer::error(
                    431,
                    &format!("the head of the request exceeds {MOST_HEAD} bytes"),
                ));
            }
            if let Some(head) = head {
                break head;
            }
            if !self.more(deadline)? {
                return Ok(None);
            }
        };
        if head.body > self.limits.body {
            let (found, most) = (head.body, self.limits.body);
            let message = format!("the body has {found} bytes, expected at most {most}");
            return Err(Answer::error(413, &message).with_hint("send the rows in several requests"));
        }
        if head.waits && self.buffer.len() < head.size + head.body {
            let allowed = self.write_all(b"HTTP/1.1 100 Continue\r\n\r\n", deadline);
            if allowed.is_err() {
                return Ok(None);
            }
        }
        while self.buffer.len() < head.size + head.body {
            if !self.more(deadline)? {
                return Ok(None);
            }
        }
        let body = self.buffer[head.size..head.size + head.body].to_vec();
        self.buffer.drain(..head.size + head.body);
        Ok(Some(Request { body, ..head.request }))
    }

    /// Reads more bytes; returns false at the end of the stream.
    fn more(&mut self, deadline: Instant) -> Result<bool, Answer> {
        match self.read(deadline) {
            Ok(count) => Ok(count > 0),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                let seconds = self.limits.time.as_secs_f64();
                Err(Answer::error(408, &format!("the request did not arrive within {seconds} seconds")))
            }
            Err(_) => Ok(false),
        }
    }

    /// Reads some bytes into the buffer before the deadline, and returns their number.
    fn read(&mut self, deadline: Instant) -> std::io::Result<usize> {
        let mut bytes = [0; READ];
        loop {
            self.stream.set_read_timeout(Some(left(deadline)?))?;
            match self.stream.read(&mut bytes) {
                Ok(count) => {
                    self.buffer.extend_from_slice(&bytes[..count]);
                    return Ok(count);
                }
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes an answer; returns false if the client does not receive it. An answer to `HEAD` has no body.
    pub fn answer(&mut self, answer: &Answer, keep_alive: bool, head_only: bool) -> bool {
        let deadline = Instant::now() + self.limits.time;
        self.write_all(&answer.bytes(keep_alive, head_only), deadline).is_ok()
    }

    fn write_all(&mut self, mut bytes: &[u8], deadline: Instant) -> std::io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(deadline)?))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the connection after a refusal. It still reads what the client sends for at most [`LINGER`], because unread bytes would reset
    /// the connection before the client has read the answer.
    pub fn end(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let deadline = Instant::now() + LINGER.min(self.limits.time);
        while self.read(deadline).is_ok_and(|count| count > 0) {
            self.buffer.clear();
        }
    }
}

/// Returns the time until the deadline, or an error after it.
fn left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
}

/// Returns true for errors after which the caller tries again until its deadline: an interrupted call or a timeout, for which there are two
/// error kinds.
fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Parses the head of a request. Returns `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<Head>, Answer> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let size = match request.parse(bytes) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Answer::error(431, &format!("more than {MOST_FIELDS} header fields")));
        }
        Err(error) => return Err(Answer::error(400, &format!("not a request of HTTP/1.1: {error}"))),
    };
    let method = request.method.unwrap_or_default().to_owned();
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let modern = request.version == Some(1);
    let request_line = Request { method, path, keep_alive: modern, ..Request::default() };
    let mut head = Head { request: request_line, size, ..Head::default() };
    let (mut length, mut host) = (None, false);
    for field in request.headers.iter() {
        host |= field.name.eq_ignore_ascii_case("host");
        head.take(field, &mut length)?;
    }
    if modern && !host {
        return Err(Answer::error(400, "the request has no header field Host"));
    }
    if length.is_none() && head.request.method == "POST" {
        return Err(Answer::error(411, "the request has no header field Content-Length"));
    }
    head.body = length.unwrap_or(0);
    Ok(Some(head))
}

impl Head {
    /// Applies a header field; `length` is the `Content-Length` of an earlier field, if any.
    fn take(&mut self, field: &httparse::Header<'_>, length: &mut Option<usize>) -> Result<(), Answer> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        let value = std::str::from_utf8(field.value).unwrap_or_default().trim();
        let has = |word: &str| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(word));
        if is("host") || is("origin") {
            self.request.hosts.push(value.to_owned());
        } else if is("transfer-encoding") {
            return Err(Answer::error(411, "the body has a Transfer-Encoding, expected a Content-Length"));
        } else if is("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let size = if digits { value.parse().ok() } else { None };
            if size.is_none() || length.is_some_and(|known| Some(known) != size) {
                return Err(Answer::error(
                    400,
                    &format!("Content-Length: found {value:?}, expected one size in bytes"),
                ));
            }
            *length = size;
        } else if is("connection") {
            self.request.keep_alive = has("keep-alive") || (self.request.keep_alive && !has("close"));
        } else if is("expect") {
            if !has("100-continue") {
                return Err(Answer::error(417, &format!("Expect: found {value:?}, expected 100-continue")));
            }
            self.waits = true;
        }
        Ok(())
    }
}

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

/// An answer to a request: a status and a JSON document.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    body: String,
    /// The methods that the path supports, if the request used another method.
    allow: Option<&'static str>,
    pub problem: Option<String>,
}

impl Answer {
    pub fn ok(body: String) -> Answer {
        Answer { status: 200, body, allow: None, problem: None }
    }

    /// Creates the answer to a request that was refused, with an error message of one line.
    pub fn error(status: u16, message: &str) -> Answer {
        let body = format!("{}\n", json!({ "error": message }));
        Answer { status, body, allow: None, problem: Some(message.to_owned()) }
    }

    pub fn with_hint(self, hint: &str) -> Answer {
        let body = format!("{}\n", json!({ "error": self.problem, "hint": hint }));
        Answer { body, ..self }
    }

    /// Adds the methods that the path supports, for the header field `Allow`.
    pub fn with_methods(self, allow: &'static str) -> Answer {
        Answer { allow: Some(allow), ..self }
    }

    /// Returns the bytes of the HTTP/1.1 response. A response to `HEAD` has no body.
    pub fn bytes(&self, keep_alive: bool, head_only: bool) -> Vec<u8> {
        let (status, phrase, length) = (self.status, phrase(self.status), self.body.len());
        let allow = self.allow.map(|methods| format!("Allow: {methods}\r\n")).unwrap_or_default();
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{allow}Connection: {connection}\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if !head_only {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }
}

/// Returns the reason phrase of a status code.
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> u16 {
        parse(text.as_bytes()).map_or_else(|answer| answer.status, |head| u16::from(head.is_some()))
    }

    #[test]
    fn heads_are_parsed_and_ambiguous_heads_are_refused() {
        let head = parse(b"POST /predict?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n{\"rows\"");
        let head = head.ok().flatten().expect("a head");
        assert_eq!((head.request.method.as_str(), head.request.path.as_str()), ("POST", "/predict"));
        assert_eq!((head.body, head.request.keep_alive, head.waits), (7, true, false));
        let cases = [
            ("GET / HTTP/1.1\r\nHost: a\r\n", 0),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1),
            ("GET / HTTP/1.0\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\n\r\n", 400),
            ("nonsense\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", 411),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 411),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: more\r\n\r\n", 417),
        ];
        for (text, expected) in cases {
            assert_eq!(status(text), expected, "{text}");
        }
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(MOST_FIELDS));
        assert_eq!(status(&many), 431);
    }

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
