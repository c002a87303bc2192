//! Datasets of linfa give the same model as arrays, for any layout of the records.

use linfa::prelude::*;
use ndarray::{Array2, ShapeBuilder, s};
use sparsegp::linfa::SparseGp;
use sparsegp::options::FitOptions;

#[test]
fn a_dataset_gives_the_model_of_its_arrays_in_every_layout() {
    let value = |(i, d): (usize, usize)| ((7 * i + 3 * d) as f64 * 0.31).sin();
    let x = Array2::from_shape_fn((80, 2), value);
    let y: Vec<f64> = x.rows().into_iter().map(|row| row[0].sin() + 0.3 * row[1]).collect();
    let options = FitOptions { inducing: Some(15), epochs: Some(20), ..FitOptions::default() };
    let fit = SparseGp(sparsegp::training::Fit::of(options.clone()));

    let rows = faer::Mat::from_fn(80, 2, |i, d| x[(i, d)]);
    let model = sparsegp::training::Fit::of(options).fit(rows.as_ref(), &y).expect("a fit");
    let predictions = model.predict(rows.as_ref(), &[]).expect("predictions");
    let expected: Vec<f64> = (0..80).map(|i| predictions.row(i).mean).collect();

    let by_columns = Array2::from_shape_fn((80, 2).f(), value);
    let with_gaps = Array2::from_shape_fn((80, 4), |(i, d)| value((i, d / 2)));
    let strided = with_gaps.slice(s![.., ..;2]);
    for records in [x.view(), by_columns.view(), strided] {
        let dataset = Dataset::new(records.to_owned(), y.clone().into());
        let fitted = fit.fit(&dataset).expect("a fit");
        assert_eq!(fitted.predict(&dataset).to_vec(), expected);
        assert_eq!(fitted.predict(&records).to_vec(), expected);
    }
    let short = Dataset::new(x.slice(s![..10, ..]).to_owned(), vec![f64::NAN; 10].into());
    assert!(fit.fit(&short).is_err());
}
