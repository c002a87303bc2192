//! Properties that hold for any data: exhaustive search, orders, monotone maps, weights as repeats, threads, files.

use proptest::prelude::*;
use sparsegp_trees::{CrossFit, Loss, Settings, Targets, Values, cross_fit};

const ROWS: usize = 60;

/// Returns two columns of numbers with few distinct values and missing cells, a column of levels, targets, and folds.
fn rows() -> impl Strategy<Value = (Vec<Vec<f64>>, Vec<u32>, Vec<f64>)> {
    let cell = prop_oneof![9 => (0..12i32).prop_map(f64::from), 1 => Just(f64::NAN)];
    let column = prop::collection::vec(cell, ROWS);
    let levels = prop::collection::vec(0..6u32, ROWS);
    let targets = prop::collection::vec(-3.0..3.0f64, ROWS);
    (prop::collection::vec(column, 2), levels, targets)
}

fn fitted(columns: &[Values], targets: &Targets<'_>, folds: &[usize], settings: &Settings) -> CrossFit {
    cross_fit(columns, targets, Loss::Squared, folds, settings, &|| false)
}

fn values(numbers: &[Vec<f64>], levels: &[u32]) -> Vec<Values> {
    let numbers = numbers.iter().cloned().map(Values::Numbers);
    numbers.chain([Values::Levels(levels.to_vec())]).collect()
}

fn by_turns() -> Vec<usize> {
    (0..ROWS).map(|row| row % 3).collect()
}

fn small() -> Settings {
    Settings { leaf_rows: 3.0, rounds: 8, patience: 8, progress: 0.0, ..Settings::default() }
}

/// The lowest sum of squares that one split by a threshold or a single level reaches in the rows of `train`, at a rate of 1.
fn best_split(numbers: &[Vec<f64>], y: &[f64], train: &[usize], least: usize) -> f64 {
    let squares = |rows: &[usize]| {
        let mean = rows.iter().map(|&row| y[row]).sum::<f64>() / rows.len().max(1) as f64;
        rows.iter().map(|&row| (y[row] - mean).powi(2)).sum::<f64>()
    };
    let mut best = squares(train);
    for column in numbers {
        for cut in 0..12 {
            for missing_left in [false, true] {
                let goes_left = |row: &usize| match column[*row] {
                    cell if cell.is_nan() => missing_left,
                    cell => cell <= f64::from(cut),
                };
                let (left, right): (Vec<usize>, Vec<usize>) = train.iter().copied().partition(goes_left);
                if left.len() >= least && right.len() >= least {
                    best = best.min(squares(&left) + squares(&right));
                }
            }
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_tree_of_two_leaves_has_the_best_split((numbers, _, y) in rows()) {
        let columns: Vec<Values> = numbers.iter().cloned().map(Values::Numbers).collect();
        let settings =
            Settings { rate: 1.0, leaves: 2, leaf_rows: 5.0, penalty: 0.0, rounds: 1, patience: 1, ..Settings::default() };
        // The rows of fold 1 train the first booster; its scores are held out for fold 0, whose rows repeat them.
        let twice = |values: &[f64]| [values, values].concat();
        let columns: Vec<Values> = columns.iter().map(|column| match column {
            Values::Numbers(cells) => Values::Numbers(twice(cells)),
            Values::Levels(codes) => Values::Levels(codes.clone()),
        }).collect();
        let (targets, folds) = (twice(&y), [vec![0; ROWS], vec![1; ROWS]].concat());
        let fit = fitted(&columns, &Targets::of(&targets), &folds, &settings);
        let train: Vec<usize> = (0..ROWS).collect();
        let wanted = best_split(&numbers, &y, &train, 5) / ROWS as f64;
        prop_assert!((2.0 * fit.loss - wanted).abs() < 1e-9, "{} {wanted}", 2.0 * fit.loss);
    }

    #[test]
    fn only_the_order_of_numbers_matters((numbers, levels, y) in rows()) {
        let curved: Vec<Vec<f64>> = numbers.iter().map(|column| column.iter().map(|x| (0.3 * x).exp() - 7.0).collect()).collect();
        let plain = fitted(&values(&numbers, &levels), &Targets::of(&y), &by_turns(), &small());
        let mapped = fitted(&values(&curved, &levels), &Targets::of(&y), &by_turns(), &small());
        prop_assert_eq!(plain.held_out, mapped.held_out);
    }

    #[test]
    fn the_unit_of_the_target_does_not_matter((numbers, levels, y) in rows()) {
        let tiny: Vec<f64> = y.iter().map(|y| y * 2f64.powi(-60)).collect();
        let plain = fitted(&values(&numbers, &levels), &Targets::of(&y), &by_turns(), &small());
        let scaled = fitted(&values(&numbers, &levels), &Targets::of(&tiny), &by_turns(), &small());
        for (plain, scaled) in plain.held_out.iter().zip(&scaled.held_out) {
            prop_assert_eq!(*plain, scaled * 2f64.powi(60));
        }
    }

    #[test]
    fn a_weight_of_two_is_a_repeated_row((numbers, _, y) in rows(), at in 0..ROWS) {
        let mut weights = vec![1.0; ROWS];
        weights[at] = 2.0;
        // Curvatures count weights; numbers of rows differ.
        let settings = Settings { leaf_rows: 1.0, leaf_curvature: 4.0, ..small() };
        let columns = |numbers: &[Vec<f64>]| numbers.iter().cloned().map(Values::Numbers).collect::<Vec<_>>();
        let targets = Targets { weights: &weights, ..Targets::of(&y) };
        let weighted = fitted(&columns(&numbers), &targets, &by_turns(), &settings);
        let more = |column: &[f64]| [column, &column[at..=at]].concat();
        let repeated: Vec<Vec<f64>> = numbers.iter().map(|column| more(column)).collect();
        let folds = [by_turns(), vec![at % 3]].concat();
        let repeated = fitted(&columns(&repeated), &Targets::of(&more(&y)), &folds, &settings);
        prop_assert!((weighted.loss - repeated.loss).abs() < 1e-9, "{} {}", weighted.loss, repeated.loss);
    }
}

#[test]
fn results_do_not_depend_on_threads_and_survive_a_file() {
    let x: Vec<f64> = (0..500).map(|i| f64::from(i * 7919 % 503)).collect();
    let y: Vec<f64> = x.iter().map(|x| (x / 40.0).sin() + f64::from(u8::from(*x > 200.0))).collect();
    let folds: Vec<usize> = (0..500).map(|row| row % 5).collect();
    let columns = [Values::Numbers(x)];
    let fit = || fitted(&columns, &Targets::of(&y), &folds, &Settings::default());
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    let (one, three) = (pool(1).install(fit), pool(3).install(fit));
    assert_eq!(one.forest, three.forest);
    assert_eq!(one.held_out, three.held_out);
    let again = one.forest.predict_held_out(&columns, &folds);
    assert!(again.iter().zip(&one.held_out).all(|(again, first)| (again - first).abs() < 1e-12));
    assert!(one.loss < 0.1 * one.loss_of_constant, "{} {}", one.loss, one.loss_of_constant);
    let bytes = postcard::to_allocvec(&one.forest).expect("bytes");
    let again: sparsegp_trees::Forest = postcard::from_bytes(&bytes).expect("a forest");
    assert_eq!(again.check(), Ok(()));
    assert_eq!(again.predict(&columns), one.forest.predict(&columns));
}
