//! The server, through a client that starts the program: the same numbers as `predict`, errors, limits, slow clients, and shutdown.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use sparsegp_testkit::program::{Csv, Work, assert_contains, csv_text, table};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

pub fn body(rows: usize) -> String {
    let row = |row: usize| json!({ "a": row as f64 * 0.5, "b": 0.25, "colour": "red" });
    Value::from_iter((0..rows).map(row)).to_string()
}

fn served(options: &str) -> (Work, Server) {
    let work = Work::modelled();
    let server = Server::start(&work, options);
    (work, server)
}

/// Returns the rows of a CSV text as JSON. Cells that parse as numbers become numbers, and empty cells null.
fn rows(csv: &Csv) -> Vec<Value> {
    let cell = |text: &String| match text.parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ if text.is_empty() => Value::Null,
        _ => json!(text),
    };
    let row = |cells: &Vec<String>| csv.names.iter().cloned().zip(cells.iter().map(cell)).collect();
    csv.rows.iter().map(row).collect()
}

#[test]
fn columns_and_numbers_equal_those_of_predict_to_the_last_digit() {
    let kind = |at: usize| if at == 0 { "kind" } else { ["low", "mid", "high"][at % 3] };
    let labelled: String =
        table(90).lines().enumerate().map(|(at, line)| format!("{line},{}\n", kind(at))).collect();
    let dates = csv_text("day,a,y", 0..120, |i| {
        let a = if i.is_multiple_of(7) { "-9".to_owned() } else { format!("{}", (i % 11) as f64 / 4.0) };
        format!("2024-{:02}-{:02},{a},{}", 1 + i % 12, 1 + i % 28, (i % 12) as f64 + (i % 11) as f64)
    });
    let (plain, none) = (table(120), json!({}));
    // Rows without a target, with missing cells and a level that training did not see.
    let new = "colour,b,a\nred,0.5,1.25\nviolet,,2\n,0.1,3e-1\n";
    let all = json!({ "latent": true, "quantiles": [0.05, 0.95], "draws": 2, "samples": 1, "seed": 3 });
    let several = "--target a,b --exclude y,kind --outputs mixed:1";
    for (data, rows_of, fit, options, asked) in [
        (&plain, plain.as_str(), "--target y", "", &none),
        (&plain, &plain, "--target y", "--latent --quantiles 0.05,0.95 --draws 2 --samples 1 --seed 3", &all),
        (&plain, new, "--target y", "--latent", &json!({ "latent": true })),
        (&labelled, &labelled, "--target kind", "--latent", &json!({ "latent": true })),
        (&labelled, &labelled, several, "--covariance", &json!({ "covariance": true })),
        (&dates, &dates, "--target y --missing=-9", "--latent", &json!({ "latent": true })),
    ] {
        let work = Work::with("data.csv", data);
        work.write("rows.csv", rows_of);
        work.quick_fit(&format!("data.csv --model-out model {fit}"));
        let expected = rows(&work.run(&format!("predict model rows.csv --out - {options}")).csv());
        let mut request = asked.clone();
        request["rows"] = Value::Array(rows(&work.csv("rows.csv")));
        let found = Server::start(&work, "").post(&request).predictions();
        // The texts show the order of the columns.
        assert_eq!(Value::from(found).to_string(), Value::from(expected).to_string());
    }
}

#[test]
fn paths_are_answered_and_warnings_name_unseen_levels_and_unused_columns() {
    let (work, server) = served("");
    let reply = server.post(&json!([{ "a": 1, "b": 0.5, "colour": "violet", "price": 3, "tags": [1] }]));
    assert_eq!(reply.predictions().len(), 1);
    let warnings = reply.json()["warnings"].to_string();
    assert_contains(&warnings, &["'price', 'tags'", "'colour' (1 row, such as 'violet')"]);
    let reply = server.post(&json!([{ "a": 1, "b": 0.5, "colour": "red" }]));
    assert_eq!(reply.json()["warnings"], json!([]));
    // A column that all rows lack is missing in every row.
    let lacking = server.post(&json!([{ "a": 1, "colour": "red" }]));
    let null = server.post(&json!([{ "a": 1, "b": null, "colour": "red" }]));
    assert_eq!((lacking.predictions().len(), lacking.json()), (1, null.json()));
    assert!(lacking.body.contains("'b' (1)"), "{}", lacking.body);
    assert_eq!(server.post(&json!([])).json(), json!({ "predictions": [], "warnings": [] }));

    let reply = server.send("GET", "/health", "");
    assert_eq!((reply.status, reply.json()), (200, json!({ "status": "ok" })));
    let model = server.send("GET", "/model?pretty", "").json();
    assert_eq!(model, work.run("inspect model --json").json());
    let config = &model["config"];
    assert_eq!((&model["data"]["target"], &config["task"]), (&json!("y"), &json!("regression")));
    assert_eq!(config["inputs"][0], json!({ "type": "numeric", "name": "a" }));
    assert_eq!(config["inputs"][2]["levels"], json!(["blue", "green", "red"]));
    assert!(config["program_version"].is_string());
    let head = server.send("HEAD", "/health", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn bad_requests_get_one_line_that_says_what_and_where() {
    let (_work, server) = served("--max-rows 3");
    let good = json!({ "a": 1, "b": 0.5, "colour": "red" });
    // GOOD stands for a good row, and NEW for one with a level that training did not see.
    let new = json!({ "a": 1, "b": 1, "colour": "violet" }).to_string();
    let cases = [
        (400, r#"{"rows": ["#, "not JSON"),
        (400, "5", "expected an array of rows"),
        (400, r#"{"latent": true}"#, "no \"rows\""),
        (400, r#"{"rows": 3}"#, "\"rows\": found 3"),
        (400, "[GOOD, 7]", "row 2 is a number"),
        (400, r#"[GOOD, {"a": [1], "b": 1, "colour": "red"}]"#, "row 2, column 'a': found an array"),
        (400, r#"[GOOD, {"a": "much", "b": 1, "colour": "red"}]"#, "row 2, column 'a': found \"much\""),
        (400, r#"[{"a": "inf", "b": 1, "colour": "red"}]"#, "row 1, column 'a': found inf"),
        (400, r#"[GOOD, {"a":1e999}]"#, ""),
        (400, r#"{"rows": [GOOD], "interval": 0.9}"#, "unknown option \"interval\""),
        (400, r#"{"rows": [GOOD], "latent": 1}"#, "\"latent\": found 1"),
        (400, r#"{"rows": [GOOD], "quantiles": [1.5]}"#, "\"quantiles\": 1.5"),
        (400, r#"{"rows": [GOOD], "draws": -1}"#, "\"draws\": found -1"),
        (400, r#"{"rows": [GOOD], "seed": 0.5}"#, "\"seed\": found 0.5"),
        (400, r#"{"rows": [NEW], "unseen": "error"}"#, "row 1, column 'colour'"),
        (400, r#"{"rows": [GOOD], "population": true}"#, "\"population\""),
        (400, r#"{"rows": [GOOD], "covariance": true}"#, "\"covariance\""),
        (413, "[GOOD, GOOD, GOOD, GOOD]", "4 rows, expected at most 3"),
    ];
    for (status, request, words) in cases {
        let request = request.replace("GOOD", &good.to_string()).replace("NEW", &new);
        let reply = server.send("POST", "/predict", &request);
        let error = reply.json()["error"].as_str().expect("a text").to_owned();
        assert_eq!(reply.status, status, "{request}: {error}");
        assert!(error.contains(words) && !error.contains('\n'), "{request}: {error}");
    }
    for (method, path, status, allow) in [
        ("GET", "/nothing", 404, None),
        ("GET", "/predict", 405, Some("POST")),
        ("DELETE", "/model", 405, Some("GET, HEAD")),
    ] {
        let wrong = server.send(method, path, "");
        assert_eq!((wrong.status, wrong.field("allow")), (status, allow));
    }
    // Each bad request is one line on standard error, and the server still answers.
    assert_eq!(server.post(&json!([good])).status, 200);
    let log = server.stop();
    assert_eq!(log.lines().filter(|line| line.starts_with("127.0.0.1:")).count(), 21, "{log}");
    assert!(log.contains("POST /predict: 413: request: 4 rows"), "{log}");
}

#[test]
fn arbitrary_bytes_do_not_stop_the_server() {
    let (_work, server) = served("");
    let request = request("POST", "/predict", "", &body(2)).into_bytes();
    let mut random = ChaCha8Rng::seed_from_u64(0);
    for _ in 0..300 {
        let mut bytes = request.clone();
        for _ in 0..random.random_range(1..6) {
            let place = random.random_range(0..bytes.len());
            bytes[place] = random.random();
        }
        bytes.truncate(random.random_range(1..=bytes.len()));
        let mut stream = server.connect().0.into_inner();
        stream.write_all(&bytes).expect("sent");
        stream.shutdown(Shutdown::Write).expect("a connection");
        // The server may reset the connection of a client that closed it in the middle of a request.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let deep = "[".repeat(100_000);
    assert_eq!(server.send("POST", "/predict", &deep).status, 400);
    assert_eq!(server.send("POST", "/predict", &body(2)).status, 200);
    let log = server.stop();
    assert!(!log.contains("defect"), "{log}");
}

#[test]
fn connections_beyond_the_limit_are_refused_until_others_end() {
    let (_work, server) = served("");
    let mut open: Vec<_> = (0..128).map(|_| server.connect()).collect();
    for connection in &mut open {
        connection.write(&request("GET", "/health", "", ""));
        assert_eq!(connection.reply().status, 200);
    }
    assert_eq!(server.send("GET", "/health", "").status, 503);
    drop(open);
    let start = Instant::now();
    while server.send("GET", "/health", "").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(10), "connections do not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_are_kept_alive_and_requests_may_be_pipelined() {
    let (_work, server) = served("");
    let mut connection = server.connect();
    let text = body(1);
    let one = request("POST", "/predict", "", &text);
    connection.write(&[one.clone(), one, request("GET", "/health", "", "")].concat());
    for _ in 0..3 {
        let reply = connection.reply();
        assert_eq!((reply.status, reply.field("connection")), (200, Some("keep-alive")));
    }
    let last = request("POST", "/predict", "Expect: 100-continue\r\nConnection: close\r\n", &text);
    connection.write(last.strip_suffix(&text).expect("a head"));
    assert_eq!(connection.reply().status, 100);
    connection.write(&text);
    let reply = connection.reply();
    assert_eq!((reply.status, reply.field("connection")), (200, Some("close")));
}

#[test]
fn slow_clients_do_not_block_others_and_get_a_timeout_error() {
    let (_work, server) = served("--threads 1 --timeout 2");
    let mut slow: Vec<_> = (0..20).map(|_| server.connect()).collect();
    let whole = request("POST", "/predict", "", &body(3));
    slow.iter_mut().for_each(|connection| connection.write(&whole[..whole.len() - 20]));
    for _ in 0..20 {
        assert_eq!(server.send("POST", "/predict", &body(3)).status, 200);
    }
    for connection in &mut slow {
        assert_eq!(connection.reply().status, 408);
    }
}

#[cfg(unix)]
#[test]
fn a_signal_lets_running_requests_end() {
    let (_work, server) = served("");
    let mut connection = server.connect();
    let text = body(2);
    let whole = request("POST", "/predict", "", &text);
    connection.write(whole.strip_suffix(&text).expect("a head"));
    std::thread::sleep(Duration::from_millis(300));
    server.signal();
    std::thread::sleep(Duration::from_millis(300));
    connection.write(&text);
    let reply = connection.reply();
    assert_eq!((reply.status, reply.field("connection")), (200, Some("close")));
    let log = server.ended();
    assert!(log.contains("stopping after the requests that have begun: 1"), "{log}");
}

#[test]
fn addresses_and_models_that_cannot_be_served_are_refused() {
    let (work, server) = served("");
    work.refuses(3, "serve", &[("absent.model", &["absent.model"])]);
    let usage: [(&str, &[&str]); 3] = [
        ("--listen 8000", &["--listen", "expected an address and a port"]),
        ("--timeout 0", &["--timeout"]),
        ("--threads 0", &["--threads is 0"]),
    ];
    work.refuses(2, "serve model", &usage);
    let taken = server.address.to_string();
    work.run(&format!("serve model --listen {taken}")).fails(3, &[&taken, "cannot listen on this address"]);
    let open = Server::start(&work, "--listen 0.0.0.0:0");
    assert_eq!(open.send("GET", "/health", "").status, 200);
    let log = open.stop();
    assert!(log.starts_with("warning: 0.0.0.0:") && log.contains("not a loopback address"), "{log}");
}
