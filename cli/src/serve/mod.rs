//! `serve`: answers requests for predictions over HTTP until the process receives a signal.
//!
//! Each connection has a thread, which only reads and writes, so slow clients do not delay others. A pool with a fixed number of threads
//! computes the predictions of all connections.

mod http;
mod request;
mod service;

use super::args::ServeArgs;
use super::{interruption, output};
use http::{Answer, Connection, Hosts, Limits, Request};
use rayon::{ThreadPool, ThreadPoolBuilder};
use service::Service;
use sparsegp::options::check_threads;
use sparsegp::{Error, Result};
use sparsegp_tables::tabular::TableOutputs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

const MOST_CONNECTIONS: usize = 128;

const LOOK: Duration = Duration::from_millis(20);

/// The time that running requests have to finish after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted, for example because file descriptors are exhausted.
const PAUSE: Duration = Duration::from_millis(50);

struct Server {
    service: Service,
    workers: ThreadPool,
    limits: Limits,
    hosts: Hosts,
    /// Has a clone for each open connection.
    connections: Arc<()>,
    /// Has a clone for each request that is being received or answered.
    requests: Arc<()>,
}

pub fn run(args: &ServeArgs) -> Result<()> {
    args.threads.map_or(Ok(()), check_threads)?;
    let outputs = TableOutputs::load(&args.model)?;
    // Without a number of threads, the pool has one for each core, or the number in RAYON_NUM_THREADS.
    let workers = ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or(0)).build();
    let server = Arc::new(Server {
        service: Service::new(outputs, args.max_rows),
        workers: workers.map_err(|error| {
            Error::data(format!("the threads for predictions cannot be started: {error}"))
        })?,
        limits: Limits { body: args.max_body << 20, time: Duration::from_secs_f64(args.timeout) },
        hosts: Hosts::new(&args.allow_host),
        connections: Arc::default(),
        requests: Arc::default(),
    });
    let (listener, address) = listen(args.listen)?;
    let accepting = server.clone();
    let thread = Builder::new().name("sparsegp-accept".to_owned());
    let thread = thread.spawn(move || accept(&accepting, &listener));
    thread.map_err(|error| {
        Error::data(format!("the thread that accepts connections cannot be started: {error}"))
    })?;
    output::print(&format!("listening on http://{address}\n"))?;
    wait(&server);
    Ok(())
}

/// Listens on an address. Returns the listener and the address with the actual port.
fn listen(asked: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error| Error::data(format!("{asked}: cannot listen on this address: {error}"));
    let listener = TcpListener::bind(asked).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if !address.ip().is_loopback() {
        output::note(&format!(
            "warning: {address} is not a loopback address: every machine that reaches it can use the model, without password or encryption"
        ));
    }
    Ok((listener, address))
}

/// Waits for a signal, and then, for at most [`GRACE`], for the requests that have begun.
fn wait(server: &Server) {
    while !is_stopping() {
        sleep(LOOK);
    }
    let requests = || Arc::strong_count(&server.requests) - 1;
    output::note(&format!(
        "stopping after the requests that have begun: {}; press Ctrl-C again to stop at once",
        requests()
    ));
    let deadline = Instant::now() + GRACE;
    while requests() > 0 && Instant::now() < deadline {
        sleep(LOOK);
    }
}

fn is_stopping() -> bool {
    interruption::flag().load(Ordering::Relaxed)
}

fn accept(server: &Arc<Server>, listener: &TcpListener) {
    loop {
        let Ok((stream, client)) = listener.accept() else {
            sleep(PAUSE);
            continue;
        };
        if is_stopping() {
            continue;
        }
        let (server, connection) = (server.clone(), server.connections.clone());
        let thread = Builder::new().name("sparsegp-connection".to_owned());
        // If no thread can start, `stream` is dropped, which closes the connection.
        let _ = thread.spawn(move || {
            converse(&server, stream, client);
            drop(connection);
        });
    }
}

fn converse(server: &Server, stream: TcpStream, client: SocketAddr) {
    let mut connection = Connection::new(stream, server.limits);
    if Arc::strong_count(&server.connections) - 1 > MOST_CONNECTIONS {
        let full = Answer::error(503, &format!("all {MOST_CONNECTIONS} connections are in use"));
        return refuse(connection, &full, client);
    }
    while connection.wait() {
        let _counted = server.requests.clone();
        let request = match connection.receive() {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(refusal) => return refuse(connection, &refusal, client),
        };
        let refusal = server.hosts.refusal(&request.hosts, connection.address());
        let answer = refusal.unwrap_or_else(|| answer(server, &request));
        report(&answer, client, &format!("{} {}", request.method, request.path.escape_debug()));
        let keep_alive = request.keep_alive && !is_stopping();
        if !connection.answer(&answer, keep_alive, request.method == "HEAD") || !keep_alive {
            return;
        }
    }
}

/// Sends a refusal to a client whose request was not received, and ends the connection.
fn refuse(mut connection: Connection, refusal: &Answer, client: SocketAddr) {
    report(refusal, client, "request");
    if connection.answer(refusal, false, false) {
        connection.end();
    }
}

/// Prints one line about a request that was refused. Clients choose the lengths of paths and names, so the line is cut at a maximum length.
fn report(answer: &Answer, client: SocketAddr, request: &str) {
    const LONGEST: usize = 400;
    if let Some(problem) = &answer.problem {
        let line = format!("{client}: {request}: {}: {problem}", answer.status);
        let end = line.char_indices().nth(LONGEST).map_or(line.len(), |(end, _)| end);
        output::note(&line[..end]);
    }
}

/// Answers a request. A panic is answered with status 500 and does not end the server.
fn answer(server: &Server, request: &Request) -> Answer {
    let answer = || match request.path.as_str() {
        "/predict" => server.workers.install(|| server.service.answer(request)),
        _ => server.service.answer(request),
    };
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        Answer::error(
            500,
            "a defect of sparsegp, please report it with the message on the server's standard error",
        )
    })
}
