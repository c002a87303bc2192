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
    pub address: SocketAddr,
    log: Option<JoinHandle<String>>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// The header fields, with names in lower case.
    fields: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON document")
    }

    /// Returns the predictions, and asserts that the request succeeded.
    pub fn predictions(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()["predictions"].as_array().expect("an array").clone()
    }
}

impl Server {
    /// Starts on a free port of the loopback interface, unless the options have an address. The program prints the port.
    pub fn start(work: &Work, options: &str) -> Server {
        let listen = if options.contains("--listen") { "" } else { "--listen 127.0.0.1:0" };
        let mut command = work.command(&format!("serve model {listen} {options}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let stderr = child.stderr.take().expect("a pipe");
        let log = std::thread::spawn(move || std::io::read_to_string(stderr).expect("text"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        let address = line.trim().strip_prefix("listening on http://").expect("an address");
        let address = address.parse().expect("an address with a port");
        Server { child, address, log: Some(log) }
    }

    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.address.port())).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        Connection(BufReader::new(stream))
    }

    /// Sends a request on a new connection, reads the reply, and asserts that the server closes the connection.
    pub fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut connection = self.connect();
        let text = request(method, path, "Connection: close\r\n", body);
        // The server may not read a refused body to its end.
        let _ = connection.0.get_mut().write_all(text.as_bytes());
        let reply = connection.reply_to(method);
        let rest = connection.0.read_to_end(&mut Vec::new());
        assert!(reply.status >= 400 || rest.is_ok_and(|count| count == 0), "{reply:?}");
        reply
    }

    pub fn post(&self, request: &Value) -> Reply {
        self.send("POST", "/predict", &request.to_string())
    }

    pub fn stop(mut self) -> String {
        self.child.kill().expect("killed");
        self.ended()
    }

    pub fn ended(mut self) -> String {
        self.child.wait().expect("ended");
        self.log.take().expect("a log").join().expect("a log")
    }

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

pub struct Connection(pub BufReader<TcpStream>);

impl Connection {
    pub fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("sent");
    }

    pub fn reply(&mut self) -> Reply {
        self.reply_to("POST")
    }

    fn reply_to(&mut self, method: &str) -> Reply {
        let mut line = || {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a reply");
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).expect("a status").parse().expect("a number");
        let lines = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()));
        let field = |line: String| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_lowercase(), value.to_owned())
        };
        let mut reply = Reply { status, fields: lines.map(field).collect(), body: String::new() };
        let length = reply.field("content-length").filter(|_| method != "HEAD");
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a size"))];
        self.0.read_exact(&mut body).expect("a body");
        reply.body = String::from_utf8(body).expect("text");
        reply
    }
}

/// Returns the text of a request with further header fields and a body.
pub fn request(method: &str, path: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

/// Returns a body with rows for a model of the small table.
pub fn body(rows: usize) -> String {
    let row = |row: usize| json!({ "a": row as f64 * 0.5, "b": 0.25, "colour": "red" });
    Value::from_iter((0..rows).map(row)).to_string()
}
