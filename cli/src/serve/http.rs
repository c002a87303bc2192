//! A connection of HTTP/1.1, which reads requests within limits of size and time, and writes answers.
//!
//! httparse parses the head of a request. A body needs a `Content-Length`. Chunked bodies are refused, so that the end of a request is
//! never ambiguous.

use super::answer::Answer;
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

/// A request that arrived completely.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The values of the header fields Host and Origin.
    pub hosts: Vec<String>,
    pub body: Vec<u8>,
    /// True if the client keeps the connection open.
    pub keep_alive: bool,
}

/// The part of a request before its body.
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

    /// Returns the address to which the client connected.
    pub fn address(&self) -> IpAddr {
        self.stream.local_addr().map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
    }

    /// Waits for the first byte of a request; returns false if the client closed the connection or sent nothing in time.
    pub fn wait(&mut self) -> bool {
        let deadline = Instant::now() + self.limits.time;
        !self.buffer.is_empty() || self.read(deadline).is_ok_and(|count| count > 0)
    }

    /// Receives the request whose first byte has arrived. Returns `None` if the client closed the connection.
    ///
    /// # Errors
    ///
    /// Returns the answer to a request that is malformed, too large or too slow. The connection must then be closed.
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
}
