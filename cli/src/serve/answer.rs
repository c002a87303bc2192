//! Answers of the server: a status and a JSON document, as the bytes of HTTP; no sockets.

use serde_json::json;

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The JSON document.
    body: String,
    /// The methods that the path has, if the request used another one.
    allow: Option<&'static str>,
    /// The line about the problem, if the request was refused.
    pub problem: Option<String>,
}

impl Answer {
    /// Creates the answer to a request that succeeded.
    pub fn ok(body: String) -> Answer {
        Answer { status: 200, body, allow: None, problem: None }
    }

    /// Creates the answer to a request that was refused, for a reason in one line.
    pub fn error(status: u16, message: &str) -> Answer {
        let body = format!("{}\n", json!({ "error": message }));
        Answer { status, body, allow: None, problem: Some(message.to_owned()) }
    }

    /// Adds a hint to a refusal.
    pub fn with_hint(self, hint: &str) -> Answer {
        let body = format!("{}\n", json!({ "error": self.problem, "hint": hint }));
        Answer { body, ..self }
    }

    /// Adds the methods that the path has.
    pub fn with_methods(self, allow: &'static str) -> Answer {
        Answer { allow: Some(allow), ..self }
    }

    /// Returns the answer as HTTP/1.1 sends it. An answer to `HEAD` has no body.
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

/// Returns the words that belong to a status code.
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
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
