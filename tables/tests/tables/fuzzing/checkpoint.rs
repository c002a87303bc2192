//! Checkpoints: files are refused or accepted, and fits continue from changed states or end with an error.
//!
//! A checksum rejects damaged files, and with them almost every input of a fuzzer. Hence an input is also read as changes of a saved state; the changed state gets the right checksum. The first byte chooses a fit, and every
//! four bytes after it are a position, the kind of change of the byte there, and the operand.

use sha2::{Digest, Sha256};
use sparsegp::checkpoint::{Checkpoint, Identity, inspect};
use sparsegp::collapsed::Dataset;
use sparsegp::data::SizeSchedule;
use sparsegp::hyper::{Event, Session};
use sparsegp::objective::Targets;
use sparsegp::options::{FitOptions, Hyper, ModelKind, StepOptions};
use sparsegp::training::{TrainingData, fit_arrays_in};
use sparsegp::variational::{Average, Family, QUpdate};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// The number of bytes of a file before its contents: the signature, the version, and the checksum of the
/// rest.
const HEADER: usize = 20 + 4 + 32;

/// The kinds of fits.
const FITS: usize = 5;

fn identity() -> Identity {
    vec![("fuzz".into(), "1".into())]
}

fn options(fit: usize) -> FitOptions {
    let base = FitOptions {
        inducing: Some(3),
        epochs: Some(4),
        warm_start: 3,
        max_seconds: Some(2.0),
        steps: StepOptions { batch_size: 5, ..StepOptions::default() },
        ..FitOptions::default()
    };
    let joint = FitOptions { hyper: Some(Hyper::Joint), ..base.clone() };
    match fit {
        0 => joint,
        1 => FitOptions {
            hyper: Some(Hyper::Collapsed),
            steps: StepOptions { batch_size: 1024, ..base.steps.clone() },
            ..base
        },
        2 => FitOptions { hyper: Some(Hyper::Alternating), ..base },
        3 => FitOptions {
            steps: StepOptions {
                q_update: QUpdate::ProxSgd,
                q_average: Average::Tail,
                batch_schedule: Some(SizeSchedule::Power { exponent: 1.0 }),
                ..joint.steps.clone()
            },
            ..joint
        },
        _ => FitOptions {
            model: ModelKind::Glm,
            inducing: None,
            warm_start: 100,
            steps: StepOptions { family: Family::Diagonal, q_update: QUpdate::Adam, ..joint.steps.clone() },
            ..joint
        },
    }
}

/// Runs a fit, from a checkpoint if there is one; its checkpoints go to `saved`. Returns true if the fit succeeded.
fn fit(kind: usize, from: Option<Vec<u8>>, saved: &mut Vec<Vec<u8>>) -> bool {
    let x = faer::Mat::from_fn(1, 12, |_, j| (j as f64 * 0.618).fract() * 4.0 - 2.0);
    let y: Vec<f64> = (0..12).map(|j| x[(0, j)].sin() + 0.1 * (j as f64 * 12.9898).sin()).collect();
    let data = TrainingData::of(Dataset { x: x.transpose(), targets: Targets::of(&y) });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c");
    let keeps = from.is_none().then_some(Duration::ZERO);
    let checkpoint = Checkpoint::new(if keeps.is_some() { &path } else { Path::new("") }, identity(), keeps);
    let checkpoint = match from {
        None => Ok(checkpoint),
        Some(bytes) => checkpoint.resume_from("c", bytes),
    };
    let Ok(mut checkpoint) = checkpoint else { return false };
    let mut listener = |event: &Event| {
        if keeps.is_some() && matches!(event, Event::Epoch { .. }) {
            saved.push(std::fs::read(&path).expect("a checkpoint"));
        }
    };
    let mut session = Session::new(&mut listener).with_checkpoint(&mut checkpoint);
    match fit_arrays_in(data, &options(kind), None, &mut session) {
        Ok(fitted) => {
            assert!(fitted.summary.objective.is_finite(), "a fit that ended well has an objective");
            true
        }
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            false
        }
    }
}

/// Returns a checkpoint from the middle of a fit.
fn middle(kind: usize) -> &'static [u8] {
    static MIDDLES: [OnceLock<Vec<u8>>; FITS] = [const { OnceLock::new() }; FITS];
    MIDDLES[kind].get_or_init(|| {
        let mut saved = Vec::new();
        assert!(fit(kind, None, &mut saved), "fit {kind}");
        saved.swap_remove(saved.len() / 2)
    })
}

/// Reads bytes as a checkpoint, and as changes of a checkpoint. An input is accepted if a fit continues from
/// it successfully.
pub fn run(bytes: &[u8]) -> bool {
    if let Err(error) = inspect("c", bytes.to_vec()) {
        assert!(error.exit_code() == 3 && !error.to_string().contains('\n'), "{error}");
    }
    let Some((&kind, changes)) = bytes.split_first() else { return false };
    let kind = usize::from(kind) % FITS;
    let mut file = middle(kind).to_vec();
    let contents = &mut file[HEADER..];
    for change in changes.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % contents.len();
        contents[at] = if change[2] % 2 == 0 { contents[at] ^ change[3] } else { change[3] };
    }
    let checksum = Sha256::digest(&file[HEADER..]);
    file[HEADER - 32..HEADER].copy_from_slice(&checksum);
    fit(kind, Some(file), &mut Vec::new())
}
