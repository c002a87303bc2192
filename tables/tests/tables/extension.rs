//! A kernel and a likelihood from outside: the test kits, fits from a start and from names, model files and a registry.

use super::common::{self, *};
use sparsegp::kernels::testkit::{check_kernel, check_kernel_in};
use sparsegp::likelihood::testkit::check_likelihood;
use sparsegp::{Registry, Result};
use sparsegp_testkit::additive::Additive;
use sparsegp_testkit::laplace::Laplace;
use std::sync::Arc;

fn registry() -> Registry {
    let registry = Registry::default().with_kernel(Additive::ENTRY).expect("a new kernel");
    registry.with_likelihood(|_| Box::new(Laplace::new(1.0))).expect("a new likelihood")
}

fn laplace() -> LikelihoodKind {
    registry().likelihood_kind("laplace").expect("it is registered")
}

/// Inputs (D × N) and targets: a smooth function with Laplace noise of scale 0.2.
fn data(n: usize) -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(2, n, |d, i| 3.0 * ((17 * i + 5 * d) as f64 * 0.377).sin());
    let (noise, mut random) = (Laplace::new(0.2), ChaCha8Rng::seed_from_u64(3));
    let f = |i: usize| x[(0, i)].sin() - 0.5 * x[(1, i)].cos();
    let y = (0..n).map(|i| OneFunction::sample(&noise, Observation::of(1.0), f(i), &mut random)).collect();
    (x, y)
}

/// A model of the data with the outside kernel and a likelihood.
fn start(x: &Mat<f64>, likelihood: impl Into<ObservationModel>) -> Start {
    let kernel = registry().kernel("additive_imq(power=2) + linear", 2).expect("a kernel");
    let z = Mat::from_fn(20, 2, |i, d| x[(d, 3 * i)]);
    let layer = InducingPrior::new(kernel, z, Jitter::DEFAULT).expect("a layer");
    Start { model: LatentModel::new(layer.into(), likelihood, false), q: None }
}

fn fit(start: &Start, (x, y): &(Mat<f64>, Vec<f64>), options: &FitOptions) -> Result<Fitted> {
    fit_arrays(TrainingData::of(Dataset::of(x.transpose(), y)), options, Some(start), &mut |_| {})
}

fn value(fitted: &Fitted, name: &str) -> f64 {
    let values = fitted.model.named_values();
    values.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name} in {values:?}")).1
}

#[test]
fn both_pass_the_test_kits() {
    let observations = [-3.0, -0.4, 0.2, 5.0].map(Observation::of);
    assert_eq!(check_likelihood(&Laplace::new(0.7), &observations), Ok(()));
    let points =
        |n: usize, shift: f64| Mat::from_fn(n, 2, |i, d| 1.4 * ((11 * i + 3 * d) as f64 * 0.7 + shift).sin());
    let kernel = registry().kernel("additive_imq(power=2) * rbf(ard)", 2).expect("a kernel");
    let (left, right) = (points(9, 0.0), points(12, 0.4));
    assert_eq!(check_kernel(kernel.as_ref(), left.as_ref(), right.as_ref()), Ok(()));
    let grammar = registry().grammar().clone();
    assert_eq!(check_kernel_in(&grammar, kernel.as_ref(), left.as_ref(), right.as_ref()), Ok(()));
    let unknown = check_kernel_in(&Grammar::default(), kernel.as_ref(), left.as_ref(), right.as_ref());
    assert!(unknown.is_err());
}

#[test]
fn a_start_keeps_its_likelihood_if_the_options_name_none() {
    let data = data(240);
    let options = FitOptions { epochs: Some(60), learning_rate: 0.05, ..FitOptions::default() };
    let fitted = fit(&start(&data.0, Laplace::new(1.0)), &data, &options).expect("a fit");
    assert_eq!(fitted.model.likelihood.name(), "laplace");
    let scale = value(&fitted, "likelihood.scale");
    assert!((0.12..0.3).contains(&scale), "scale {scale}");
    assert!(fitted.summary.objective < 0.6, "{} nats per datum", fitted.summary.objective);

    // The properties of the likelihood decide, not the default of the options.
    let refused = |options: &FitOptions| {
        fit(&start(&data.0, Laplace::new(1.0)), &data, options).err().expect("a refusal")
    };
    let collapsed = FitOptions { hyper: Some(Hyper::Collapsed), ..options.clone() };
    assert!(refused(&collapsed).to_string().contains("laplace"));
    for (objective, estimator) in [
        (ObjectiveKind::Elbo, "price:2"),
        (ObjectiveKind::DlmLog, "bmc:5"),
        (ObjectiveKind::DlmLog, "smooth-bmc:5:0.1"),
    ] {
        let estimator = estimator.parse().expect("an estimator");
        let error = refused(&FitOptions { objective, estimator, ..options.clone() }).to_string();
        assert!(error.contains("the kink of laplace"), "{error}");
    }
    let error = refused(&FitOptions { likelihood: Some(LikelihoodKind::Gaussian), ..options });
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("the start model has the laplace likelihood"), "{error}");
}

fn table() -> Table {
    let (x, y) = data(80);
    let column = |d: usize| x.row(d).iter().copied().collect();
    numbers([("a", column(0)), ("b", column(1)), ("y", y.iter().map(|y| 50.0 + 7.0 * y).collect())])
}

#[test]
fn they_survive_saving_and_loading_with_a_registry() {
    let (table, columns) = (table(), target("y"));
    let options = FitOptions {
        likelihood: Some(laplace()),
        kernel: "additive_imq(power=3) + rbf(ard)[0]".into(),
        registry: registry(),
        ..small(12, 3)
    };
    let model = common::fit(&table, &columns, &options).expect("a fit");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model");
    model.save(&path).expect("a file");

    let read = TableModel::load_with(&path, &registry()).expect("a model");
    assert_eq!(read.options(), model.options());
    assert_eq!(read.options().likelihood, Some(laplace()));
    assert_eq!(read.hyperparameters(), model.hyperparameters());
    assert_eq!(predicted(&read, &table), predicted(&model, &table));
    // A fit can continue from the model, which can be written again.
    let again = FitOptions { registry: Registry::default(), likelihood: None, ..options.clone() };
    let again = common::fit_from(&table, &columns, &again, Some(&read)).expect("a fit");
    assert_eq!(again.latent().likelihood.name(), "laplace");

    let half = Registry::default().with_likelihood(|_| Box::new(Laplace::new(1.0))).expect("a name");
    for (known, what) in
        [(Registry::default(), "the likelihood 'laplace'"), (half, "the kernel 'additive_imq'")]
    {
        let error = TableModel::load_with(&path, &known).err().expect(what);
        let message = error.to_string();
        let words = format!("the model uses {what}, which this program does not know");
        assert!(message.contains(&words), "{message}");
        assert!(error.advice().is_some_and(|hint| hint.contains("registry")) && !message.contains('\n'));
    }
    assert_eq!(TableModel::load(&path).map(|_| ()).expect_err("unknown").kind(), ErrorKind::Data);
}

/// A name can refer to a closure instead of a constant entry, and to a likelihood instead of a function.
#[test]
fn closures_and_likelihoods_are_registered_at_run_time() {
    let start = 0.4;
    let make: Make = Arc::new(move |columns| Box::new(Stationary::rbf(start, &vec![1.0; columns])));
    let known = Registry::default().with_made_kernel("bell", make.clone()).expect("a new kernel");
    let (made, built_in) =
        ("bell(lengthscales=[2, 3])[0,2] + linear", "rbf(variance=0.4, lengthscales=[2, 3])[0,2] + linear");
    let values = |kernel: Box<dyn Kernel>| {
        let mut values = Vec::new();
        kernel.for_each_parameter(&mut |parameter| values.extend_from_slice(&parameter.values));
        values
    };
    let kernel = |text| values(known.kernel(text, 3).expect("a kernel"));
    assert_eq!(kernel(made), kernel(built_in));
    for (text, what) in [("bell(ard)", "expected one of variance, lengthscales"), ("bell[3]", "no column 3")]
    {
        let error = known.kernel(text, 3).map(|_| ()).expect_err(text).to_string();
        assert!(error.contains(what), "{error}");
    }
    let listed = known.kernel("ball", 3).map(|_| ()).expect_err("unknown").to_string();
    assert!(listed.contains("hamming, bell, scale(...)"), "{listed}");

    let known = known.with_likelihood_like(Arc::new(Laplace::new(0.3))).expect("a new likelihood");
    let kind = known.likelihood_kind("laplace").expect("it is registered");
    let own = known.likelihood(kind, 2).expect("it");
    own.for_each_parameter(&mut |own| assert_eq!(own.values, [0.3]));
    assert_eq!(own.own_len(), 1);
    assert!(known.clone().with_made_kernel("bell", make.clone()).is_err());
    assert!(known.clone().with_made_kernel("two words", make).is_err());
    assert!(known.clone().with_likelihood_like(Arc::new(Laplace::new(1.0))).is_err());
    assert!(known == known.clone() && known != Registry::default());
}
