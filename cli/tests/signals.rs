//! Signals: every command ends soon after the first signal, with status 130 and without half-written files.
#![cfg(unix)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp_testkit::program::{Work, table};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The time limit. Commands end within a second, or later on a machine that is busy with other tests.
const AT_MOST: Duration = Duration::from_secs(3);

/// Commands that would run for minutes, or wait for input that never comes.
const COMMANDS: [&str; 13] = [
    "fit data.csv --target y --inducing 60 --epochs 1000000 --tolerance 0 --hyper joint --model-out out.model",
    "fit data.csv --target y --inducing 60 --epochs 1000000 --tolerance 0 --hyper joint --checkpoint c --checkpoint-every 0.1",
    "fit large.csv --target y --inducing 1500 --objective vfe --model-out out.model",
    "fit data.csv --target y --restarts 256 --inducing 100",
    "fit large.csv --target y --auto all",
    "fit targets.csv --target y1,y2,y3 --outputs own --epochs 1000000 --tolerance 0 --hyper joint",
    "predict model large.csv --out out.csv --draws 10000",
    "predict model - --out out.parquet",
    "evaluate model - --metrics out.json",
    "explain model large.csv --orders 100000 --rows 1-100 --out explained --report out.html",
    "update model - --model-out out.model",
    "compare data.csv --target y --repeats 10000 --out compared",
    "inspect pipe",
];

fn prepared() -> Work {
    let work = Work::empty();
    work.write("data.csv", table(1500));
    work.write("large.csv", table(12_000));
    work.write("targets.csv", sparsegp_testkit::outputs::table(300));
    work.run("fit data.csv --target y --inducing 40 --epochs 3 --quiet --model-out model").ok();
    let made = std::process::Command::new("mkfifo").arg(work.path("pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    work
}

fn start(work: &Work, arguments: &str) -> Child {
    let mut command = work.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the program runs")
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a process")), signal).expect("the command runs");
}

/// Sends a signal to a running command, and returns its status, or `None` if it does not end in time, and its standard error.
fn interrupt(mut child: Child, signal: Signal) -> (Option<i32>, String) {
    if child.try_wait().expect("a child").is_none() {
        send(&child, signal);
    }
    let start = Instant::now();
    while start.elapsed() < AT_MOST && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let output = child.wait_with_output().expect("ended");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// Returns the names of the files and folders in a folder, except `known`.
fn files(folder: &Path, known: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            all.extend(files(&path, &[]).into_iter().map(|inner| format!("{name}/{inner}")));
        } else if !known.contains(&name.as_str()) {
            all.push(name);
        }
    }
    all
}

#[test]
fn every_command_ends_soon_after_a_signal_and_leaves_nothing_half_written() {
    let work = prepared();
    let mut random = ChaCha8Rng::seed_from_u64(35);
    for (signal, arguments) in [Signal::SIGTERM, Signal::SIGINT].into_iter().cycle().zip(COMMANDS) {
        let child = start(&work, arguments);
        std::thread::sleep(Duration::from_millis(random.random_range(300..1200)));
        let (code, said) = interrupt(child, signal);
        assert_eq!(code, Some(130), "{arguments} after {signal}: {said}");
        assert!(said.contains("error: interrupted"), "{arguments}: {said}");
        for name in files(work.folder.path(), &["data.csv", "large.csv", "targets.csv", "model", "pipe"]) {
            let path = work.path(&name);
            let bytes = || std::fs::read(&path).expect("a file");
            let whole = match path.extension().and_then(|ending| ending.to_str()) {
                _ if name == "c" => sparsegp::checkpoint::inspect(&name, bytes()).is_ok(),
                Some("checkpoint") => sparsegp::checkpoint::inspect(&name, bytes()).is_ok(),
                Some("json") => serde_json::from_slice::<serde_json::Value>(&bytes()).is_ok(),
                Some("model") if name.starts_with("compared/") => true,
                _ => false,
            };
            assert!(whole, "{arguments} leaves {name}");
            std::fs::remove_file(&path).expect("removed");
        }
    }
}

#[test]
fn a_fit_interrupted_in_a_long_step_leaves_a_checkpoint_and_resumes_from_it() {
    let work = Work::new();
    work.write("large.csv", table(12_000));
    // A step takes longer than the time that a fit has after a signal.
    let fit = "fit large.csv --target y --inducing 1200 --objective vfe --epochs 1";
    let child = start(&work, &format!("{fit} --quiet"));
    std::thread::sleep(Duration::from_millis(1500));
    let (code, said) = interrupt(child, Signal::SIGTERM);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("a checkpoint is left in large.csv.checkpoint"), "{said}");
    assert_eq!(work.names(), ["data.csv", "large.csv", "large.csv.checkpoint"]);
    let child = start(&work, &format!("{fit} --resume large.csv.checkpoint"));
    std::thread::sleep(Duration::from_millis(1000));
    let (code, said) = interrupt(child, Signal::SIGINT);
    assert_eq!(code, Some(130), "{said}");
}

#[test]
fn a_command_that_ignores_hang_ups_continues_after_one() {
    let work = Work::empty();
    let program = env!("CARGO_BIN_EXE_sparsegp");
    let script = format!("trap '' HUP; exec {program} evaluate - -");
    let mut command = std::process::Command::new("sh");
    command.current_dir(work.folder.path()).args(["-c", &script]);
    // The command waits for a model that never arrives.
    let made = std::process::Command::new("mkfifo").arg(work.path("-")).status().expect("mkfifo runs");
    assert!(made.success());
    let child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the shell runs");
    std::thread::sleep(Duration::from_millis(500));
    send(&child, Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(700));
    let (code, said) = interrupt(child, Signal::SIGTERM);
    assert_eq!(code, Some(130), "{said}");
}
