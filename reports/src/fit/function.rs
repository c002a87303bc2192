//! Figures of the function itself: over one or two inputs with data and inducing inputs, and
//! varying noise.

use super::FitReport;
use super::explained::MOST_CURVES;
use super::maps::of_places;
use crate::evaluation::KeptRows;
use crate::figures::{Band, Drawing, Plane, Series, ends, regions, surface};
use crate::html::{Block, Figure, figures};
use faer::Mat;
use rayon::prelude::*;
use sparsegp::latent::{InducingPrior, Layer};
use sparsegp::likelihood::{TargetKind, Task};
use sparsegp::model::Predictions;
use sparsegp_tables::explain::{InputColumn, InputKind, Rows};
use sparsegp_tables::tabular::TableModel;

/// The number of points along a single input, and of cells along each of two.
const PLACES: usize = 400;
pub(super) const CELLS: usize = 50;

/// The likelihood's name for the standard deviation of varying noise.
const NOISE_SD: &str = "noise_sd";
const NOISE: &str = "standard deviation of the noise";

/// The caption of a standard deviation over two inputs.
pub(super) const SPREAD: &str = "The standard deviation of the prediction. It is large far from the rows, and at least as large as that of the noise.";

/// The number of bins of rows, ordered by prediction, in the figure of the noise.
const BINS: usize = 20;

pub(super) fn blocks(report: &FitReport<'_>) -> Vec<Block> {
    let mut all: Vec<Option<Figure>> = report.figures.iter().cloned().map(Some).collect();
    let Some(rows) = report.kept().map(KeptRows::rows).filter(|rows| !rows.is_empty()) else {
        return figures(all);
    };
    let (model, mut columns) = (report.model, report.model.schema().input_columns());
    columns.truncate(model.schema().features().iter().filter(|feature| feature.is_of_columns()).count());
    let numbers = columns.iter().all(|column| column.kind == InputKind::Number && column.inputs.len() == 1);
    if all.is_empty() && numbers {
        match columns.as_slice() {
            [only] => all.push(of_one(model, only, rows)),
            [across, up] => all.extend(of_two(model, [across, up], rows)),
            _ => {}
        }
    }
    if all.is_empty() {
        all.extend(of_places(model, rows));
    }
    all.push(noise(model, rows));
    figures(all)
}

/// Returns the inducing inputs of all layers in original units, `M × D`.
fn inducing(model: &TableModel) -> Mat<f64> {
    let all = || model.latent().layers.iter().filter_map(Layer::inducing).map(InducingPrior::z);
    let mut z = Mat::zeros(all().map(|own| own.nrows()).sum(), model.inputs());
    let mut row = 0;
    for own in all() {
        z.as_mut().submatrix_mut(row, 0, own.nrows(), own.ncols()).copy_from(own);
        row += own.nrows();
    }
    model.scaling().unscale_inputs(z.as_mut());
    z
}

/// Returns points (`D × n`, the inputs of features) as inputs of the model, in which every grouping has a level that training did not see, and
/// offsets are 0.
pub(super) fn at_new_levels(model: &TableModel, points: Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(model.inputs(), points.ncols());
    out.as_mut().subrows_mut(0, points.nrows()).copy_from(&points);
    for InputColumn { inputs, slope, kind, .. } in model.schema().input_columns() {
        if let (Some(slope), true) = (slope, inputs.start < points.nrows()) {
            out.row_mut(slope).copy_from(points.row(inputs.start));
        }
        if let (InputKind::Codes { names }, false) = (kind, inputs.start < points.nrows()) {
            out.row_mut(inputs.start).fill(names.len() as f64);
        }
    }
    model.schema().write_trees(out.as_mut().transpose_mut());
    out
}

/// Returns sentences about the levels of groupings and the offsets in figures of the function; empty without both.
pub(super) fn about_levels(model: &TableModel) -> String {
    const GROUPS: &str = " The predictions are for new levels of all groupings, so the standard deviation includes that of the groups.";
    const OFFSETS: &str = " The predictions are for offsets of 0.";
    let groups = if model.schema().groups().is_empty() { "" } else { GROUPS };
    let offsets = if model.schema().offset_names().is_empty() { "" } else { OFFSETS };
    format!("{groups}{offsets}")
}

/// Returns the range of an input over rows, with a margin on both sides.
fn span(rows: Rows<'_>, input: usize) -> (f64, f64) {
    let (low, high) = ends(rows.x.col(input).iter().copied());
    let margin = if high > low { 0.05 * (high - low) } else { 0.5 };
    (low - margin, high + margin)
}

/// Returns points along the only input of rows, `1 × PLACES`.
fn along(rows: Rows<'_>) -> Mat<f64> {
    let (low, high) = span(rows, 0);
    Mat::from_fn(1, PLACES, |_, k| low + (high - low) * k as f64 / (PLACES - 1) as f64)
}

fn of_one(model: &TableModel, column: &InputColumn, rows: Rows<'_>) -> Option<Figure> {
    let x = at_new_levels(model, along(rows));
    let predictions = model.predict_rows(x.transpose(), Vec::new());
    let inputs = || rows.x.col(0).iter().copied();
    if model.task() == Task::Classification {
        let all: Vec<Vec<f64>> =
            (0..PLACES).into_par_iter().map(|row| predictions.probabilities(row)).collect();
        let levels = model.schema().encoding().levels();
        let band = |class: usize| Band {
            name: levels[class].clone(),
            points: (0..PLACES).map(|k| (x[(0, k)], all[k][class], f64::NAN, f64::NAN)).collect(),
        };
        let share = |class: usize| all.iter().map(|row| row[class]).sum::<f64>();
        let mut shown: Vec<usize> = (usize::from(levels.len() == 2)..levels.len()).collect();
        let mut of = "every class".to_owned();
        if shown.len() > MOST_CURVES {
            of = format!("the {MOST_CURVES} most probable of {} classes", shown.len());
            shown.sort_by(|&a, &b| share(b).total_cmp(&share(a)));
            shown.truncate(MOST_CURVES);
        }
        let caption = format!(
            "The probability of {of} at every value of the input; grey marks at the lower edge are rows."
        );
        let series = Series {
            axes: (column.name.clone(), "probability".to_owned()),
            bands: shown.into_iter().map(band).collect(),
            rows: inputs().collect(),
            ..Series::default()
        };
        return Figure::of("function", "Probabilities", &caption, series.figure());
    }
    let at = |k: usize| {
        let mean = predictions.row(k).mean;
        (x[(0, k)], mean, predictions.quantile(k, 0.025), predictions.quantile(k, 0.975))
    };
    let points = (0..PLACES).into_par_iter().map(at).collect();
    let z = inducing(model);
    let series = Series {
        axes: (column.name.clone(), model.schema().target_name().to_owned()),
        bands: vec![Band { name: String::new(), points }],
        observed: inputs().zip(rows.targets.iter().copied()).collect(),
        inducing: (0..z.nrows()).map(|row| z[(row, 0)]).collect(),
        ..Series::default()
    };
    let caption = format!(
        "The predictive mean with the central 95 % interval of the target, rows as dots, and inducing inputs as orange marks at the lower \
         edge. About nineteen of twenty dots should lie in the band, which widens where there are no data.{}",
        about_levels(model)
    );
    Figure::of("function", "The function", &caption, series.figure())
}

fn of_two(model: &TableModel, columns: [&InputColumn; 2], rows: Rows<'_>) -> Vec<Option<Figure>> {
    let (x, y) = (span(rows, 0), span(rows, 1));
    let (kind, levels) = (model.schema().encoding().kind(), model.schema().encoding().levels());
    let discrete = matches!(kind, TargetKind::Binary | TargetKind::Class | TargetKind::Ordinal);
    let class = |row: usize| if discrete { rows.targets[row].max(0.0) as usize } else { 0 };
    let places = inducing(model);
    let plane = Plane {
        axes: (columns[0].name.clone(), columns[1].name.clone()),
        x,
        y,
        resolution: (CELLS, CELLS),
        points: (0..rows.len()).map(|row| (rows.x[(row, 0)], rows.x[(row, 1)], class(row))).collect(),
        classes: if discrete { levels.to_vec() } else { Vec::new() },
        inducing: (0..places.nrows()).map(|row| (places[(row, 0)], places[(row, 1)])).collect(),
    };
    let cells = Mat::from_fn(2, CELLS * CELLS, |input, cell| plane.centre(cell)[input]);
    let predictions = model.predict_rows(at_new_levels(model, cells).transpose(), Vec::new());
    let marks = "Markers are rows, crosses are inducing inputs.";
    match kind {
        TargetKind::Binary => {
            let caption = format!(
                "The probability of '{}' over both inputs; both classes are equally probable on the line. \
                {marks} Pale colours far from all rows are expected.",
                levels.last().map_or("", String::as_str)
            );
            vec![Figure::of("function", "Decision regions", &caption, probability(&plane, &predictions))]
        }
        TargetKind::Class | TargetKind::Ordinal => {
            let best = |row: usize| {
                let all = predictions.probabilities(row);
                let best = (0..all.len()).max_by(|&a, &b| all[a].total_cmp(&all[b])).unwrap_or(0);
                (best, all.get(best).copied().unwrap_or(f64::NAN))
            };
            let cells: Vec<_> = (0..predictions.rows()).into_par_iter().map(best).collect();
            let caption =
                format!("The most probable class over both inputs; paler colours are less probable. {marks}");
            vec![Figure::of("function", "Decision regions", &caption, regions(&plane, &cells))]
        }
        _ => {
            let target = model.schema().target_name();
            let [mean, sd] = mean_and_sd(&plane, target, &predictions);
            let about =
                format!("The predictive mean of {target} over both inputs. {marks}{}", about_levels(model));
            vec![
                Figure::of("function", "The mean", &about, mean),
                Figure::of("function-sd", "The standard deviation", SPREAD, sd),
            ]
        }
    }
}

pub(super) fn mean_and_sd(plane: &Plane, target: &str, predictions: &Predictions) -> [Option<Drawing>; 2] {
    let (means, variances) = moments(predictions);
    let sds: Vec<f64> = variances.into_iter().map(f64::sqrt).collect();
    [surface(plane, target, &means, None), surface(plane, "sd", &sds, None)]
}

pub(super) fn probability(plane: &Plane, predictions: &Predictions) -> Option<Drawing> {
    surface(plane, "probability", &moments(predictions).0, Some((0.0, 1.0)))
}

fn moments(predictions: &Predictions) -> (Vec<f64>, Vec<f64>) {
    let moments = |row: usize| predictions.row(row);
    (0..predictions.rows()).into_par_iter().map(moments).map(|row| (row.mean, row.variance)).unzip()
}

/// Draws the standard deviation of varying noise: along a single input, otherwise by the prediction.
fn noise(model: &TableModel, rows: Rows<'_>) -> Option<Figure> {
    let predictions = model.predict_rows(rows.x, rows.exposure.to_vec());
    let which = predictions.detail_names().iter().position(|name| *name == NOISE_SD)?;
    let sd = |predictions: &Predictions, row: usize| predictions.details(row)[which];
    let (across, points, caption) = if model.inputs() == 1 {
        let x = along(rows);
        let predictions = model.predict_rows(x.transpose(), Vec::new());
        let point = |row: usize| (x[(0, row)], sd(&predictions, row), f64::NAN, f64::NAN);
        (
            model.schema().input_names().swap_remove(0),
            (0..PLACES).into_par_iter().map(point).collect(),
            "The standard deviation of the noise, which varies under this likelihood, at every value of the \
            input. A flat curve means that constant noise would suffice.",
        )
    } else {
        let at = |row: usize| (predictions.row(row).mean, sd(&predictions, row));
        let mut points: Vec<(f64, f64)> = (0..rows.len()).into_par_iter().map(at).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let of_bin = |bin: &[(f64, f64)]| {
            let mut sds: Vec<f64> = bin.iter().map(|point| point.1).collect();
            sds.sort_by(f64::total_cmp);
            let quantile = |p: f64| sds[(p * (sds.len() - 1) as f64).round() as usize];
            (bin[bin.len() / 2].0, quantile(0.5), quantile(0.1), quantile(0.9))
        };
        (
            format!("predicted mean of {}", model.schema().target_name()),
            points.chunks(points.len().div_ceil(BINS)).map(of_bin).collect(),
            "The standard deviation of the noise, which varies under this likelihood: medians over \
            twentieths of the rows, and bands of the middle 80 %. A flat curve means that constant noise \
            would suffice.",
        )
    };
    let bands = vec![Band { name: String::new(), points }];
    let series = Series { axes: (across, NOISE.to_owned()), bands, ..Series::default() };
    Figure::of("noise", "Noise", caption, series.figure())
}
