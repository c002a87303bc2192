//! Held-out losses against those of scikit-learn's HistGradientBoosting, which scikit_learn.py prints.

use sparsegp_trees::{Loss, Settings, Targets, Values, cross_fit};

/// Returns the columns of a table, with text as NaN, except classes in the last column, which are coded 0 (benign) and 1.
fn columns_of(csv: &str) -> Vec<Vec<f64>> {
    let number = |cell: &str| match cell {
        "benign" => 0.0,
        "malignant" => 1.0,
        cell => cell.parse().unwrap_or(f64::NAN),
    };
    let rows: Vec<Vec<f64>> = csv.lines().skip(1).map(|line| line.split(',').map(number).collect()).collect();
    (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

/// Checks the loss after one round and the lowest loss of 60 rounds. Gradients are in single precision there, columns with more than 254
/// different values have other bins, and the log odds at the start have no pseudo-row.
fn check(csv: &str, loss: Loss, wanted: [f64; 2], tolerances: [f64; 2]) {
    let mut columns = columns_of(csv);
    let y = columns.pop().expect("a target");
    columns.retain(|column| !column.iter().all(|cell| cell.is_nan()));
    let columns: Vec<Values> = columns.into_iter().map(Values::Numbers).collect();
    let folds: Vec<usize> = (0..y.len()).map(|row| row % 5).collect();
    for ((rounds, wanted), tolerance) in [1, 60].into_iter().zip(wanted).zip(tolerances) {
        let settings = Settings { rounds, patience: rounds, progress: 0.0, ..Settings::default() };
        let found = cross_fit(&columns, &Targets::of(&y), loss, &folds, &settings, &|| false).loss;
        let far = (found / wanted - 1.0).abs();
        assert!(far < tolerance, "{loss:?}, {rounds} rounds: {found}, scikit-learn {wanted}, {far:.1e}");
    }
}

#[test]
fn losses_agree_with_scikit_learn() {
    let classes = include_str!("../../examples/data/breast_cancer.csv");
    check(classes, Loss::Logistic, [0.586_886_162_097_314_8, 0.147_478_136_605_251_97], [5e-3, 1e-2]);
    let counts = include_str!("../../examples/data/doctor_visits.csv");
    check(counts, Loss::Poisson, [-0.174_840_589_027_088_57, -0.409_606_381_743_681_8], [1e-8, 1e-2]);
    let numbers = include_str!("../../examples/data/storms.csv");
    check(numbers, Loss::Squared, [293.106_196_348_940_2, 177.130_298_276_083_27], [5e-3, 1e-2]);
}
