//! Answers of the server: a status and a JSON document, written as an HTTP response.

use serde_json::json;

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    body: String,
    /// The methods that the path supports, if the request used another method.
    allow: Option<&'static str>,
    /// The error message, if the request was refused.
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
