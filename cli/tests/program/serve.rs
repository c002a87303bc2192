//! The server: the same numbers as `predict`, errors, limits, slow clients, and shutdown.

use crate::http::{Reply, Server, body, post, read_reply};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use sparsegp_testkit::program::{Csv, QUICK, Work, assert_contains, csv_text, table};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// Fits a model to the small table.
fn modelled() -> Work {
    let work = Work::new();
    work.model();
    work
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

/// Returns the predictions of an answer, and asserts that the request succeeded.
fn predictions(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["predictions"].as_array().expect("an array").clone()
}

/// Checks that the server and `predict` with these options give the same columns and numbers.
fn agree(work: &Work, data: &str, options: &str, asked: &Value) {
    let csv = work.run(&format!("predict model {data} --out - {options}")).csv();
    let server = Server::start(work, "");
    let mut request = asked.clone();
    request["rows"] = Value::Array(rows(&work.csv(data)));
    let found = predictions(&server.post(&request));
    let expected = rows(&csv);
    assert_eq!(found.len(), expected.len());
    let columns = |rows: &[Value]| -> Vec<Vec<String>> {
        rows.iter().map(|row| row.as_object().expect("an object").keys().cloned().collect()).collect()
    };
    assert_eq!((columns(&found), &found), (columns(&expected), &expected));
}

#[test]
fn numbers_equal_those_of_predict_to_the_last_digit() {
    let work = modelled();
    agree(&work, "data.csv", "", &json!({}));
    let options = "--latent --quantiles 0.05,0.95 --draws 2 --samples 1 --seed 3";
    let asked = json!({ "latent": true, "quantiles": [0.05, 0.95], "draws": 2, "samples": 1, "seed": 3 });
    agree(&work, "data.csv", options, &asked);
    // Rows without a target, with missing cells and a level that training did not see.
    work.write("new.csv", "colour,b,a\nred,0.5,1.25\nviolet,,2\n,0.1,3e-1\n");
    agree(&work, "new.csv", "--latent", &json!({ "latent": true }));
}

#[test]
fn classes_and_several_targets_have_the_columns_of_predict() {
    let kind = |at: usize| if at == 0 { "kind" } else { ["low", "mid", "high"][at % 3] };
    let labelled =
        table(90).lines().enumerate().map(|(at, line)| format!("{line},{}\n", kind(at))).collect::<String>();
    let work = Work::with("data.csv", &labelled);
    work.run(&format!("fit data.csv --target kind --quiet --model-out model {QUICK}")).ok();
    agree(&work, "data.csv", "--latent", &json!({ "latent": true }));
    work.run(&format!(
        "fit data.csv --target a,b --exclude y,kind --outputs mixed:1 --quiet --model-out model {QUICK}"
    ))
    .ok();
    agree(&work, "data.csv", "--covariance", &json!({ "covariance": true }));
}

#[test]
fn dates_and_declared_markers_are_read_as_in_files() {
    let text = csv_text("day,a,y", 0..120, |i| {
        let a = if i.is_multiple_of(7) { "-9".to_owned() } else { format!("{}", (i % 11) as f64 / 4.0) };
        format!("2024-{:02}-{:02},{a},{}", 1 + i % 12, 1 + i % 28, (i % 12) as f64 + (i % 11) as f64)
    });
    let work = Work::with("data.csv", &text);
    work.run(&format!("fit data.csv --target y --missing=-9 --quiet --model-out model {QUICK}")).ok();
    agree(&work, "data.csv", "--latent", &json!({ "latent": true }));
}

#[test]
fn warnings_name_unseen_levels_and_unused_columns() {
    let work = modelled();
    let server = Server::start(&work, "");
    let reply = server.post(&json!([{ "a": 1, "b": 0.5, "colour": "violet", "price": 3, "tags": [1] }]));
    assert_eq!(predictions(&reply).len(), 1);
    let warnings = reply.json()["warnings"].to_string();
    assert_contains(&warnings, &["'price', 'tags'", "'colour' (1 row, such as 'violet')"]);
    let reply = server.post(&json!([{ "a": 1, "b": 0.5, "colour": "red" }]));
    assert_eq!(reply.json()["warnings"], json!([]));
    // A column that all rows lack is missing in every row.
    let lacking = server.post(&json!([{ "a": 1, "colour": "red" }]));
    let null = server.post(&json!([{ "a": 1, "b": null, "colour": "red" }]));
    assert_eq!(
        (predictions(&lacking), &lacking.json()["warnings"]),
        (predictions(&null), &null.json()["warnings"])
    );
    assert!(lacking.body.contains("'b' (1)"), "{}", lacking.body);
    assert_eq!(server.post(&json!([])).json(), json!({ "predictions": [], "warnings": [] }));
}

#[test]
fn the_paths_model_and_health_are_answered() {
    let work = modelled();
    let server = Server::start(&work, "");
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
    let work = modelled();
    let server = Server::start(&work, "--max-rows 3");
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
    let reply = server.send("POST", "/predict", &format!("[{good},{{\"a\":1e999}}]"));
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert_eq!(server.send("GET", "/nothing", "").status, 404);
    let wrong = server.send("GET", "/predict", "");
    assert_eq!((wrong.status, wrong.field("allow")), (405, Some("POST".to_owned())));
    let wrong = server.send("DELETE", "/model", "");
    assert_eq!((wrong.status, wrong.field("allow")), (405, Some("GET, HEAD".to_owned())));
    // Each bad request is one line on standard error, and the server still answers.
    assert_eq!(server.post(&json!([good])).status, 200);
    let log = server.stop();
    assert_eq!(log.lines().filter(|line| line.starts_with("127.0.0.1:")).count(), 21, "{log}");
    assert!(log.contains("POST /predict: 413: request: 4 rows"), "{log}");
}

#[test]
fn arbitrary_bytes_do_not_stop_the_server() {
    let work = modelled();
    let server = Server::start(&work, "");
    let request = post("/predict", &body(2)).into_bytes();
    let mut random = ChaCha8Rng::seed_from_u64(0);
    for _ in 0..300 {
        let mut bytes = request.clone();
        for _ in 0..random.random_range(1..6) {
            let place = random.random_range(0..bytes.len());
            bytes[place] = random.random();
        }
        bytes.truncate(random.random_range(1..=bytes.len()));
        let mut stream = server.connect();
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
    let work = modelled();
    let server = Server::start(&work, "");
    let mut open: Vec<_> = (0..128).map(|_| server.connect()).collect();
    for stream in &mut open {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
        assert_eq!(read_reply(stream, &mut Vec::new()).status, 200);
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
    let work = modelled();
    let server = Server::start(&work, "");
    let mut stream = server.connect();
    let one = post("/predict", &body(1));
    let first_part = "POST /predict HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n";
    stream
        .write_all(
            [one.as_bytes(), one.as_bytes(), b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"]
                .concat()
                .as_slice(),
        )
        .expect("sent");
    let mut rest = Vec::new();
    for _ in 0..3 {
        let reply = read_reply(&mut stream, &mut rest);
        assert_eq!((reply.status, reply.field("connection")), (200, Some("keep-alive".to_owned())));
    }
    let text = body(1);
    let head = format!("{first_part}Content-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    stream.write_all(head.as_bytes()).expect("sent");
    let mut rest = Vec::new();
    assert_eq!(read_reply(&mut stream, &mut rest).status, 100);
    stream.write_all(text.as_bytes()).expect("sent");
    let reply = read_reply(&mut stream, &mut rest);
    assert_eq!((reply.status, reply.field("connection")), (200, Some("close".to_owned())));
}

#[test]
fn slow_clients_do_not_block_others_and_get_a_timeout_error() {
    let work = modelled();
    let server = Server::start(&work, "--threads 1 --timeout 2");
    let mut slow: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream
            .write_all(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n[{")
            .expect("sent");
    }
    for _ in 0..20 {
        assert_eq!(server.send("POST", "/predict", &body(3)).status, 200);
    }
    for stream in &mut slow {
        let reply = read_reply(stream, &mut Vec::new());
        assert_eq!(reply.status, 408, "{}", reply.body);
    }
}

#[cfg(unix)]
#[test]
fn a_signal_lets_running_requests_end() {
    let work = modelled();
    let server = Server::start(&work, "");
    let mut stream = server.connect();
    let text = body(2);
    let head = format!("POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", text.len());
    stream.write_all(head.as_bytes()).expect("sent");
    std::thread::sleep(Duration::from_millis(300));
    server.signal();
    std::thread::sleep(Duration::from_millis(300));
    stream.write_all(text.as_bytes()).expect("the request still arrives");
    let reply = read_reply(&mut stream, &mut Vec::new());
    assert_eq!((reply.status, reply.field("connection")), (200, Some("close".to_owned())));
    let log = server.ended();
    assert!(log.contains("stopping after the requests that have begun: 1"), "{log}");
}

#[test]
fn addresses_and_models_that_cannot_be_served_are_refused() {
    let work = modelled();
    work.refuses(3, "serve", &[("absent.model", &["absent.model"])]);
    let usage: [(&str, &[&str]); 3] = [
        ("--listen 8000", &["--listen", "expected an address and a port"]),
        ("--timeout 0", &["--timeout"]),
        ("--threads 0", &["--threads is 0"]),
    ];
    work.refuses(2, "serve model", &usage);
    let server = Server::start(&work, "");
    let taken = server.address().to_string();
    work.run(&format!("serve model --listen {taken}")).fails(3, &[&taken, "cannot listen on this address"]);
    let open = Server::start_at(&work, "0.0.0.0:0", "");
    assert_eq!(open.send("GET", "/health", "").status, 200);
    let log = open.stop();
    assert!(log.starts_with("warning: 0.0.0.0:") && log.contains("not a loopback address"), "{log}");
}
