//! The demo's regression: CO2 at Mauna Loa. A collapsed bound (vfe) forecasts monthly means; elbo and dlm-log fill gaps in weekly means.

use super::{Run, both, fit_to};
use sparsegp::Result;
use sparsegp::data::Scaling;
use sparsegp::functions::normal::HALF_95;
use sparsegp::hyper::Constraints;
use sparsegp::options::{FitOptions, ObjectiveKind, StepOptions};
use sparsegp_data::{CO2_MONTHLY, CO2_WEEKLY};
use sparsegp_reports::{Band, Evaluation, Figure, Series};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::{Table, read_csv};
use sparsegp_tables::tabular::TableModel;

/// The first year of the forecast. Earlier rows are the training set.
const FORECAST_FROM: f64 = 1992.0;

/// The first year in the figure of the forecast. A short range shows single seasons.
const SHOWN_FROM: f64 = 1982.0;

/// Returns options with a kernel for a trend, seasons that change slowly, and irregularities. The period is fixed at a year, which is
/// `1 / scale` on the standardised scale.
fn base_options(table: &Table) -> Result<FitOptions> {
    let years = table.numbers("year")?;
    let x = faer::MatRef::from_row_major_slice(&years, years.len(), 1);
    let year = 1.0 / Scaling::standardise(x, &[]).inputs[0].scale;
    Ok(FitOptions {
        kernel: "linear + rbf + periodic * rbf + rational_quadratic".to_owned(),
        constraints: Constraints::fixing([("kernel.periodic.period", year)])?,
        inducing: Some(200),
        ..FitOptions::default()
    })
}

/// Fits monthly means before 1992 on all rows at once (vfe), and forecasts the later years.
pub fn monthly(quiet: bool) -> Result<Vec<Run>> {
    let table = read_csv("co2_monthly.csv", CO2_MONTHLY.as_bytes())?;
    let (before, after) =
        (years(&table, &|year| year < FORECAST_FROM)?, years(&table, &|year| year >= FORECAST_FROM)?);
    let options = FitOptions { objective: ObjectiveKind::Vfe, ..base_options(&before)? };
    let model = fit_to(&before, "co2", &options, 0.0, quiet)?.model;
    let test = Evaluation::of_table(&model, None, &after, UnseenLevels::Error)?;
    let figures = figure(&model, &years(&table, &|year| year >= SHOWN_FROM)?)?;
    Ok(vec![Run { task: "CO2 by month, 1992-2001 forecast", model, test, figures }])
}

/// Fills gaps in weekly means by fits with both objectives on mini-batches, without a random fifth of the weeks.
pub fn weekly(quiet: bool) -> Result<Vec<Run>> {
    let table = read_csv("co2_weekly.csv", CO2_WEEKLY.as_bytes())?;
    let options = FitOptions {
        learning_rate: 0.05,
        fix_inducing: true,
        steps: StepOptions { batch_size: 256, ..StepOptions::default() },
        ..base_options(&table)?
    };
    let mut runs = both("CO2 by week, a fifth left out", &table, "co2", options, 0.2, quiet)?;
    for run in &mut runs {
        run.figures = figure(&run.model, &table)?;
    }
    Ok(runs)
}

fn years(table: &Table, wanted: &dyn Fn(f64) -> bool) -> Result<Table> {
    let years = table.numbers("year")?;
    let kept: Vec<usize> = (0..years.len()).filter(|&row| wanted(years[row])).collect();
    Ok(table.take(&kept))
}

fn figure(model: &TableModel, table: &Table) -> Result<Vec<Figure>> {
    let (years, values) = (table.numbers("year")?, table.numbers("co2")?);
    let predictions = model.predict(table, UnseenLevels::Error)?;
    let band = |(row, &year): (usize, &f64)| {
        let prediction = predictions.row(row);
        let half = HALF_95 * prediction.variance.sqrt();
        (year, prediction.mean, prediction.mean - half, prediction.mean + half)
    };
    let series = Series {
        axes: ("year".to_owned(), "CO2 (ppmv)".to_owned()),
        bands: vec![Band { name: String::new(), points: years.iter().enumerate().map(band).collect() }],
        observed: years.iter().copied().zip(values.iter().copied()).collect(),
        ..Series::default()
    };
    let caption = "Observations (dots), predictive mean and central 95 % interval, which is wider where the forecast is less certain.";
    Ok(Figure::of("series", "The series", caption, series.figure()).into_iter().collect())
}
