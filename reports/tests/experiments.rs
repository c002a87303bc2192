//! The common code of the experiments among the examples. The experiments themselves are run by hand.

#[path = "../examples/common/mod.rs"]
mod common;

use common::{Data, Experiment, median, normals, record_at, slope, trace};
use faer::Mat;
use sparsegp::likelihood::Gaussian;
use sparsegp::objective::Estimator;
use sparsegp::training::InferenceOptions;
use sparsegp::variational::{QUpdate, Schedule};
use sparsegp_reports::{CurveSeries, Curves};
use std::io::Write;

#[test]
fn data_are_read_split_and_scaled_and_absent_ones_are_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut file = flate2::write::GzEncoder::new(
        std::fs::File::create(path("few.csv.gz")).expect("a file"),
        Default::default(),
    );
    file.write_all(b"a,y,b\n1,0.5,3\n2,1.5,5\n3,-2.5,4\n4,3.25,9\n").expect("written");
    file.finish().expect("written");

    let mut arguments = ["--out", &path("out"), &path(""), "--runs", "3"].map(str::to_owned).to_vec();
    let experiment = Experiment::new("test", &mut arguments).expect("arguments");
    assert_eq!(arguments, ["--runs", "3"]);
    assert!(experiment.read("many", "y", None).expect("no error").is_none());
    assert!(experiment.read("few", "z", None).is_err());
    let data = experiment.read("few", "y", None).expect("no error").expect("data");
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
    let experiment = Experiment { data: None, out: folder.path().to_owned() };
    experiment.csv("a.csv", &["t", "kl"], &[vec![1.0, 0.1 + 0.2], vec![2.0, 1e-9]]).expect("written");
    let text = std::fs::read_to_string(folder.path().join("a.csv")).expect("a file");
    assert_eq!(text, "t,kl\n1.0,0.30000000000000004\n2.0,1e-9\n");
    let series =
        vec![CurveSeries { name: "KL".into(), points: vec![(1.0, 1e-3, f64::NAN), (10.0, 1e-4, 1e-3)] }];
    let axes = ("t".into(), "KL".into());
    let figure = Curves { axes, log_x: true, log_y: true, series, ..Curves::default() };
    experiment.figure("a.svg", &figure).expect("written");
    assert!(folder.path().join("a.svg").is_file());
    experiment.figure("none.svg", &Curves::default()).expect("nothing to write");
    assert!(!folder.path().join("none.svg").exists());
}

#[test]
fn slopes_are_exponents_and_records_are_logarithmic() {
    let points: Vec<_> = (1..50).map(|t| (f64::from(t), 3.0 * f64::from(t).powf(-1.5))).collect();
    assert!((slope(&points) + 1.5).abs() < 1e-12);
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
    let mut inference = data.infer(model, Estimator::Exact, options);
    let seen = trace(&mut inference, &[0, 1, 3], |run, _| (run.iterations(), run.q().kl_to(&posterior)));
    assert!(seen[0].1 > 0.1 && seen[1..].iter().all(|(_, kl)| kl.abs() < 1e-12));
    assert_eq!(seen.iter().map(|(t, _)| *t).collect::<Vec<_>>(), [0, 1, 3]);
    assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0])), (2.0, 3.0));
}
