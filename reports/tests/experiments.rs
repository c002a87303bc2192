//! The common code of the experiments among the examples. The experiments themselves are run by hand.

#[path = "../examples/papers/paper.rs"]
mod paper;

use faer::Mat;
use paper::common::{median, normals};
use paper::data::{Data, means, record_at, series, slope, trace};
use paper::{Axes, Paper, PaperArgs};
use sparsegp::likelihood::{Gaussian, TargetKind};
use sparsegp::objective::Estimator;
use sparsegp::training::InferenceOptions;
use sparsegp::variational::{QUpdate, Schedule};
use std::io::Write;
use std::path::Path;

/// Returns a run that reads from a folder and writes to its folder `out`.
fn paper_in(folder: &Path) -> Paper {
    let args = PaperArgs { data: Some(folder.into()), out: Some(folder.join("out")), ..PaperArgs::default() };
    Paper::new("test", &[], args).expect("a folder of results")
}

#[test]
fn data_are_read_split_and_scaled_and_absent_ones_are_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(folder.path().join("few.csv.gz")).expect("a file");
    let mut file = flate2::write::GzEncoder::new(file, Default::default());
    file.write_all(b"a,y,b\n1,0.5,3\n2,1.5,5\n3,-2.5,4\n4,3.25,9\n").expect("written");
    file.finish().expect("written");

    let paper = paper_in(folder.path());
    assert!(paper.read("many", "y", TargetKind::Real).expect("no error").is_none());
    assert!(paper.read("few", "z", TargetKind::Real).is_err());
    let data = paper.read("few", "y", TargetKind::Real).expect("no error").expect("data");
    assert_eq!((data.x.nrows(), data.x.ncols(), data.x[(1, 2)]), (2, 4, 4.0));
    assert_eq!(data.y, [0.5, 1.5, -2.5, 3.25]);

    let (mut train, test) = data.split(0.25, 1).expect("a split");
    assert_eq!((train.y.len(), test.y.len()), (3, 1));
    let scaling = train.standardise(true);
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / 3.0;
    assert!(mean(&mut train.y.iter().copied()).abs() < 1e-14);
    assert!((mean(&mut train.x.row(0).iter().map(|x| x * x)) - 1.0).abs() < 1e-14);
    assert_eq!(scaling.dims(), 2);
}

#[test]
fn results_are_written_with_all_digits() {
    let folder = tempfile::tempdir().expect("a folder");
    let paper = paper_in(folder.path());
    paper.csv("a.csv", &["t", "kl"], &[[1.0, 0.1 + 0.2], [2.0, 1e-9]]).expect("written");
    let text = std::fs::read_to_string(paper.out.join("a.csv")).expect("a file");
    assert_eq!(text, "t,kl\n1.0,0.30000000000000004\n2.0,1e-9\n");
    let lines = vec![series("KL", [(1.0, 1e-3), (10.0, 1e-4)])];
    paper.figure("a.svg", ("t", "KL"), Axes::LogLog, lines).expect("written");
    assert!(paper.out.join("a.svg").is_file());
    paper.figure("none.svg", ("t", "KL"), Axes::Linear, Vec::new()).expect("nothing to write");
    assert!(!paper.out.join("none.svg").exists());
}

#[test]
fn slopes_are_exponents_and_records_are_logarithmic() {
    let points = (1..50).map(|t| (f64::from(t), 3.0 * f64::from(t).powf(-1.5)));
    assert!((slope(points) + 1.5).abs() < 1e-12);
    assert_eq!(record_at(100, 3), [0, 1, 2, 5, 10, 22, 46, 100]);
    assert_eq!((record_at(0, 5), record_at(1, 5)), (vec![0], vec![0, 1]));
}

#[test]
fn a_whole_natural_step_of_a_linear_model_is_its_posterior() {
    let mut draw = normals(1);
    let data = Data { x: Mat::from_fn(2, 5, |_, _| draw()), y: (0..5).map(|_| draw()).collect() };
    let model = data.model(Gaussian::new(0.5), 2.0).expect("a model");
    let posterior = data.posterior(model.clone()).expect("a posterior");
    let options = InferenceOptions::full_batch(QUpdate::Ngd, Schedule::Constant(1.0));
    let seen = means(2, |_| {
        let mut run = data.infer(model.clone(), Estimator::Exact, options.clone());
        Ok(trace(&mut run, &[0, 1, 3], |run| [run.iterations() as f64, run.q().kl_to(&posterior)]))
    });
    let seen = seen.expect("means");
    assert!(seen[0][1] > 0.1 && seen[1..].iter().all(|[_, kl]| kl.abs() < 1e-12));
    assert_eq!(seen.iter().map(|[t, _]| *t).collect::<Vec<_>>(), [0.0, 1.0, 3.0]);
    let (optimum, _) = data.optimum(model, 0.5).expect("an optimum");
    assert!(optimum.kl_to(&posterior) < 1e-10);
    assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0])), (2.0, 3.0));
}
