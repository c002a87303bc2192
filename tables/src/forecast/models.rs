//! The candidate models of a series: sums of kernels with weak priors on every scale.
//!
//! The priors of variances, of the lengthscales of `rbf` and of the periodic kernel are the defaults of the program of Corani, Benavoli and
//! Zaffalon (2021), "Time series forecasting with Gaussian processes needs priors", in units of the longest season. Instead of a spectral mixture there are two
//! Matérn kernels with long lengthscales: `matern12` is then close to a random walk, and `matern32` to an integrated random walk whose slope
//! reverts, as in a damped trend. Both widen intervals with the horizon.

use super::ForecastOptions;
use super::distribution::{ATOMS, level};
use super::seasons::TimeScale;
use super::series::OneSeries;
use crate::options::fit_options;
use crate::schema::{SchemaOptions, UnseenLevels};
use crate::tables::{Column, NamedColumn, Table};
use crate::tabular::{FitRequest, TableModel, fit_table_in};
use serde_json::{Value, json};
use sparsegp::error::Result;
use sparsegp::hyper::{Event, Session};
use sparsegp::options::{FitOptions, Hyper};
use std::sync::atomic::AtomicBool;

/// The level of a cell of holidays without a holiday.
const NO_HOLIDAY: &str = "none";

/// The trend of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trend {
    /// A straight line and a smooth curve, in addition to the wandering level.
    Growing,
    /// A wandering level, to whose past the series returns.
    Level,
}

impl Trend {
    pub const ALL: [Trend; 2] = [Trend::Growing, Trend::Level];
}

/// The scale on which errors are symmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

impl Scale {
    pub fn to(self, value: f64) -> f64 {
        if self == Scale::Log { value.max(f64::MIN_POSITIVE).ln() } else { value }
    }

    pub fn from(self, value: f64) -> f64 {
        if self == Scale::Log { value.exp() } else { value }
    }
}

/// The fits of one series.
pub(super) struct Fitter<'a> {
    pub table: &'a Table,
    pub options: &'a ForecastOptions,
    pub scale: Scale,
    pub time: TimeScale,
    /// The positions of the values that the models see, in ascending order.
    pub seen: Vec<usize>,
    /// The first time, which is subtracted.
    origin: f64,
    interrupt: &'a AtomicBool,
}

/// Returns the positions of the values that a fit sees, of `count` values: all, or the last ones and as many spread over the earlier ones.
/// Earlier values show slow seasons and the trend, for which a sample is enough.
fn seen_of(count: usize, window: usize) -> Vec<usize> {
    // Multiples of the golden ratio vary the phase of the sample within any season.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    if count <= window {
        return (0..count).collect();
    }
    let spread = window / 2;
    let earlier = count - (window - spread);
    let width = earlier as f64 / spread as f64;
    let at = |cell: usize| ((cell as f64 + (cell as f64 * GOLDEN).fract()) * width) as usize;
    (0..spread).map(at).chain(earlier..count).collect()
}

impl<'a> Fitter<'a> {
    pub fn new(
        table: &'a Table,
        options: &'a ForecastOptions,
        series: &OneSeries,
        interrupt: &'a AtomicBool,
    ) -> Fitter<'a> {
        let positive = !options.counts && series.values.iter().all(|&value| value > 0.0);
        Fitter {
            table,
            options,
            scale: if positive { Scale::Log } else { Scale::Linear },
            time: TimeScale::of(series, &options.seasons),
            seen: seen_of(series.times.len(), options.window),
            origin: series.number(series.times[0]),
            interrupt,
        }
    }

    /// Fits a candidate to the observed values of a series.
    pub fn fit(&self, series: &OneSeries, trend: Trend) -> Result<TableModel> {
        let options = fit_options(self.settings(trend).as_object().unwrap_or(&Default::default()), &[])?;
        self.fitted(series, &options, None)
    }

    /// Conditions a fitted candidate on the observed values of a series, without changing its hyper-parameters.
    pub fn condition(&self, series: &OneSeries, model: &TableModel) -> Result<TableModel> {
        let options = FitOptions { hyper: Some(Hyper::Fixed), ..model.options().clone() };
        self.fitted(series, &options, Some(model))
    }

    fn fitted(
        &self,
        series: &OneSeries,
        options: &FitOptions,
        start: Option<&TableModel>,
    ) -> Result<TableModel> {
        // Earlier origins see the same positions, so that all their times are inducing inputs of the fit to all values.
        let seen: Vec<usize> =
            self.seen.iter().copied().filter(|&place| place < series.times.len()).collect();
        let values = |of: &[f64]| -> Vec<f64> { seen.iter().map(|&place| of[place]).collect() };
        let rows: Vec<usize> = seen.iter().map(|&place| series.rows[place]).collect();
        let table = self.inputs(series, &values(&series.times), &rows, Some(&values(&series.values)))?;
        let names: Vec<String> = self.names();
        let columns = SchemaOptions {
            target: self.target(),
            features: Some(names.clone()),
            keep: names,
            numbers: !self.options.counts,
            ..SchemaOptions::default()
        };
        let request = FitRequest { start, ..FitRequest::new(&table, &columns, options) };
        let mut quiet = |_: &Event| {};
        let mut session = Session::new(&mut quiet).with_interrupt(self.interrupt);
        Ok(fit_table_in(&request, &mut session)?.model)
    }

    /// Returns [`ATOMS`] quantiles of each future value, on the original scale.
    pub fn atoms(&self, model: &TableModel, series: &OneSeries) -> Result<Vec<Vec<f64>>> {
        let table = self.inputs(series, &series.future, &series.future_rows, None)?;
        let predictions = model.predict(&table, UnseenLevels::New)?;
        let of_row = |row: usize| (0..ATOMS).map(|index| predictions.quantile(row, level(index))).collect();
        Ok((0..predictions.rows()).map(of_row).collect())
    }

    /// Draws the future values jointly.
    pub fn draws(
        &self,
        model: &TableModel,
        series: &OneSeries,
        count: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>> {
        let table = self.inputs(series, &series.future, &series.future_rows, None)?;
        let design = model.schema().design(&table, UnseenLevels::New)?;
        model.model().target_draws(design.as_ref(), &[], count, seed)
    }

    /// Returns the name of the target in the table of a fit: its own name, for messages, unless an input has this name.
    fn target(&self) -> String {
        let own = &self.options.target;
        if self.names().contains(own) { format!("{own} to forecast") } else { own.clone() }
    }

    fn names(&self) -> Vec<String> {
        let known = (0..self.options.known_names().count()).map(|index| format!("known{index}"));
        std::iter::once("time".to_owned()).chain(known).collect()
    }

    /// Returns the table of a fit: times in units of the longest season, known inputs and, if given, targets.
    fn inputs(
        &self,
        series: &OneSeries,
        times: &[f64],
        rows: &[usize],
        targets: Option<&[f64]>,
    ) -> Result<Table> {
        let scaled = |time: &f64| (series.number(*time) - self.origin) / self.time.unit;
        let mut columns = vec![Column::Number(times.iter().map(scaled).collect())];
        for name in self.options.known_names() {
            columns.push(self.known(name, rows)?);
        }
        let mut columns: Vec<NamedColumn> = self
            .names()
            .into_iter()
            .zip(columns)
            .map(|(name, column)| NamedColumn { name, column })
            .collect();
        if let Some(targets) = targets {
            columns.push(NamedColumn { name: self.target(), column: Column::Number(targets.to_vec()) });
        }
        Table::new(series.called(self.table, self.options), columns)
    }

    /// Returns a known input at these rows, without missing cells except where there is no holiday.
    fn known(&self, name: &str, rows: &[usize]) -> Result<Column> {
        let column = self.table.supported(name)?;
        if self.options.holidays.as_deref() == Some(name) {
            let cells: Vec<_> = rows.iter().map(|&row| column.spelling(row)).collect();
            let word = |cell: &Option<std::borrow::Cow<'_, str>>| {
                format!("day {}", cell.as_deref().map_or(NO_HOLIDAY, str::trim))
            };
            let words: Vec<String> = cells.iter().map(word).collect();
            return Ok(Column::from_text(words.iter().map(|word| Some(word.as_str()))));
        }
        match rows.iter().find(|&&row| column.is_missing(row)) {
            Some(&row) => Err(self.table.missing(row, name)),
            None => Ok(column.take(rows)),
        }
    }

    /// Returns the options of a fit by name.
    fn settings(&self, trend: Trend) -> Value {
        let mut kernel = match trend {
            Trend::Growing => vec![
                "linear[time]".to_owned(),
                "rbf[time]".into(),
                "matern32[time]".into(),
                "matern12[time]".into(),
            ],
            Trend::Level => vec!["matern32[time]".into(), "matern12[time]".into()],
        };
        // Steps far below the unit make short lengthscales plausible.
        let wide = ((self.time.unit / self.time.step).ln() / 3.0).max(1.0);
        let mut priors = vec![
            "kernel.*.variance=lognormal(-1.5,1)".to_owned(),
            "likelihood.noise_variance=lognormal(-1.5,1)".into(),
            format!("kernel.matern32.lengthscales[time]=lognormal(2,{wide})"),
            format!("kernel.matern12.lengthscales[time]=lognormal(1,{wide})"),
        ];
        if trend == Trend::Growing {
            priors.push("kernel.rbf.lengthscales[time]=lognormal(1.1,1)".into());
        }
        let mut fixed = Vec::new();
        for (index, period) in self.time.periods.iter().enumerate() {
            kernel.push("periodic[time] * matern12[time]".into());
            let number = if index > 0 { format!("_{}", index + 1) } else { String::new() };
            fixed.push(format!("kernel.periodic{number}.period[time]={}", period / self.time.unit));
            priors.push(format!("kernel.periodic{number}.lengthscales=lognormal(0.2,1)"));
            priors.push(format!("kernel.matern12_{}.lengthscales[time]=lognormal(3,1)", index + 2));
        }
        kernel.extend(self.known_kernels());
        let mut settings =
            json!({ "kernel": kernel.join(" + "), "auto": "none", "prior": priors, "fix": fixed });
        if self.options.counts {
            settings["task"] = "count".into();
            settings["likelihood"] = "negative-binomial".into();
            // The noise is part of the likelihood.
            priors.retain(|prior| !prior.starts_with("likelihood"));
            settings["prior"] = priors.into();
        } else {
            settings["task"] = "regression".into();
            settings["warp_target"] = if self.scale == Scale::Log { "log" } else { "none" }.into();
        }
        settings
    }

    /// Returns the terms of known inputs: linear and smooth effects of numbers, and an effect for each level of categories.
    fn known_kernels(&self) -> Vec<String> {
        let (mut all, mut numbers) = (Vec::new(), Vec::new());
        for (index, name) in self.options.known_names().enumerate() {
            let holiday = self.options.holidays.as_deref() == Some(name);
            let column = self.table.column(name);
            all.push(format!("known{index}"));
            if !holiday && column.is_some_and(|column| column.numbers().is_some()) {
                numbers.push(format!("known{index}"));
            }
        }
        let linear = all.iter().map(|name| format!("linear[{name}]"));
        let smooth = (!numbers.is_empty()).then(|| format!("rbf(ard)[{}]", numbers.join(",")));
        linear.chain(smooth).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_see_the_last_values_and_a_sample_of_the_earlier_ones() {
        assert_eq!(seen_of(5, 5), [0, 1, 2, 3, 4]);
        let seen = seen_of(100_000, 600);
        assert_eq!((seen.len(), seen[300], seen[599]), (600, 99_700, 99_999));
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((seen[150] as f64 - 49_850.0).abs() < 400.0, "{}", seen[150]);
    }
}
