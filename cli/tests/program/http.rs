//! A client for tests of the server, which starts the program, sends requests and reads replies.

use serde_json::{Value, json};
use sparsegp_testkit::program::Work;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The program that serves the file `model` of a folder, until it is dropped.
pub struct Server {
    child: Child,
    address: SocketAddr,
    log: Option<JoinHandle<String>>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// The header fields, with names in lower case.
    fields: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn field(&self, name: &str) -> Option<String> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON document")
    }
}

impl Server {
    /// Starts on a free port of the loopback interface.
    pub fn start(work: &Work, options: &str) -> Server {
        Server::start_at(work, "127.0.0.1:0", options)
    }

    /// Starts on an address; the program prints its port.
    pub fn start_at(work: &Work, listen: &str, options: &str) -> Server {
        let mut command = work.command(&format!("serve model --listen {listen} {options}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut stderr = child.stderr.take().expect("a pipe");
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("text");
            text
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        let address = line.trim().strip_prefix("listening on http://").expect("an address");
        let address: SocketAddr = address.parse().expect("an address with a port");
        Server { child, address, log: Some(log) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.address.port())).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        stream
    }

    /// Sends a request on a new connection and reads the whole stream.
    pub fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut stream = self.connect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("sent");
        // The server may not read a refused body to its end.
        let _ = stream.write_all(body.as_bytes());
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a reply");
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        reply(head, body.to_owned())
    }

    pub fn post(&self, request: &Value) -> Reply {
        self.send("POST", "/predict", &request.to_string())
    }

    /// Ends the program, and returns what it printed on standard error.
    pub fn stop(mut self) -> String {
        self.child.kill().expect("killed");
        self.ended()
    }

    /// Waits for the end of the program, and returns what it printed on standard error.
    pub fn ended(mut self) -> String {
        self.child.wait().expect("ended");
        self.log.take().expect("a log").join().expect("a log")
    }

    /// Sends SIGTERM.
    #[cfg(unix)]
    pub fn signal(&self) {
        use nix::sys::signal::{Signal, kill};
        let id = i32::try_from(self.child.id()).expect("a process");
        kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM).expect("the program runs");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reply(head: &str, body: String) -> Reply {
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").expect("a field");
        (name.to_lowercase(), value.to_owned())
    };
    Reply { status: status.parse().expect("a number"), fields: lines.map(field).collect(), body }
}

/// Reads a reply from a connection that stays open; `rest` holds the bytes that arrived with the previous reply.
pub fn read_reply(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Reply {
    let mut more = |rest: &mut Vec<u8>| {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).expect("a reply");
        assert!(count > 0, "the connection ended after {:?}", String::from_utf8_lossy(rest));
        rest.extend_from_slice(&bytes[..count]);
    };
    let end = loop {
        match rest.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(end) => break end,
            None => more(rest),
        }
    };
    let head = String::from_utf8(rest[..end].to_vec()).expect("text");
    let found = reply(&head, String::new());
    let length: usize = found.field("content-length").map_or(0, |length| length.parse().expect("a size"));
    while rest.len() < end + 4 + length {
        more(rest);
    }
    let body = String::from_utf8(rest[end + 4..end + 4 + length].to_vec()).expect("text");
    rest.drain(..end + 4 + length);
    Reply { body, ..found }
}

/// Returns the text of a request with a body.
pub fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns a body with rows for a model of the small table.
pub fn body(rows: usize) -> String {
    let row = |row: usize| json!({ "a": row as f64 * 0.5, "b": 0.25, "colour": "red" });
    Value::from_iter((0..rows).map(row)).to_string()
}
