//! The options about the columns of the data, which `fit` and `compare` share.

use super::parsers::{delimiter, finite, ordered, places};
use clap::Args;
use sparsegp::options::FitOptions;
use sparsegp::{Error, Result};
use sparsegp_tables::schema::{Censoring, Places, SchemaOptions, SplitBy, Surface};
use sparsegp_tables::tables::{Table, column_names, interval_name, read_table_with};
use std::path::Path;

/// The options about columns.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Columns")]
pub struct ColumnArgs {
    /// Column to predict; fit takes several, separated by commas. Optional with both --lower and --upper
    ///
    /// Targets are never inputs. If a column has exactly this name, commas included, it is the only target.
    #[arg(long, value_name = "COL", required_unless_present_all = ["lower", "upper"])]
    pub target: Option<String>,
    /// Columns to predict from, separated by commas [default: all others]
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub features: Option<Vec<String>>,
    /// Columns to leave out, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// Columns of numbers to treat as categories, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub categorical: Vec<String>,
    /// Column of ordered levels, lowest first, as 'COL=LOW<MIDDLE<HIGH'; it becomes one input that counts the levels from 0; may be
    /// repeated
    #[arg(long, value_name = "COL=LEVELS", value_parser = ordered)]
    pub ordered: Vec<(String, Vec<String>)>,
    /// Columns of longitude and latitude in degrees, as LON,LAT; together they are one input with one lengthscale in km
    ///
    /// Every row becomes a point on the sphere, and kernels use the straight-line distance between points. Other columns, such as a date,
    /// have their own lengthscales.
    #[arg(long, value_name = "LON,LAT", value_parser = places, conflicts_with = "plane")]
    pub places: Option<[String; 2]>,
    /// Columns of coordinates in a plane, as X,Y; together they are one input with one lengthscale in their unit
    #[arg(long, value_name = "X,Y", value_parser = places)]
    pub plane: Option<[String; 2]>,
    /// Columns to keep as inputs even if they look like identifiers, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub keep: Vec<String>,
    /// Hold out whole groups: all rows with the same value of this column. The column is an input only if --features names it
    #[arg(long, value_name = "COL", conflicts_with = "split_time")]
    pub split_by: Option<String>,
    /// Hold out the latest rows, by this column of dates or numbers
    #[arg(long, value_name = "COL")]
    pub split_time: Option<String>,
    /// Character between the columns of a CSV file, or tab [default: detected from the first lines: , ; tab or |]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Further texts that mark a missing cell, separated by commas. Empty cells, NA, N/A, NaN, null, #DIV/0! and similar texts always count
    /// as missing
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub missing: Vec<String>,
    /// With two classes, the class whose probability is predicted [default: yes, true or positive; otherwise the larger number or the rarer
    /// word]
    #[arg(long, value_name = "VALUE")]
    pub positive_label: Option<String>,
    /// Column of exposures (time at risk, area, …), which multiply the rates of counts; predictions need it too
    #[arg(long, value_name = "COL")]
    pub exposure: Option<String>,
    /// Column of numbers of trials, of which the target counts the successes: 0 to n; predictions need it too
    #[arg(long, value_name = "COL")]
    pub trials: Option<String>,
    /// Column of known standard errors of the target, whose squares are added to the variance of the noise; predictions without it are of
    /// targets without known noise
    #[arg(long, value_name = "COL")]
    pub noise_std: Option<String>,
    /// The standard errors of --noise-std are the only noise: none is trained in addition
    #[arg(long, requires = "noise_std")]
    pub noise_std_only: bool,
    /// Column that says which targets are censored: 1 or right (the target is above the given value), left (below), 0 or none
    #[arg(long, value_name = "COL", conflicts_with_all = ["lower", "upper", "cap"])]
    pub censored: Option<String>,
    /// Column of the lower ends of intervals that end at the target: equal to it if it is known, empty if there is no lower end
    ///
    /// With --upper too, the target is either end of its interval, and both columns are equal to it if it is known. Without --target, these
    /// two columns say all that is known of it.
    #[arg(long, value_name = "COL", conflicts_with = "cap")]
    pub lower: Option<String>,
    /// Column of the upper ends of intervals that begin at the target: equal to it if it is known, empty if there is no upper end
    #[arg(long, value_name = "COL", conflicts_with = "cap")]
    pub upper: Option<String>,
    /// Largest number that the target can show: targets that are not below it are only known to be above it
    #[arg(long, value_name = "VALUE", value_parser = finite, allow_negative_numbers = true)]
    pub cap: Option<f64>,
    /// Columns of known additions to the latent functions, one for each function, separated by commas: in units of the target, or on the
    /// scale of the link (log rates, log odds); predictions need them too
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub offset: Vec<String>,
    /// Column of sample weights, which multiply the losses of rows in training
    #[arg(long, value_name = "COL")]
    pub weights: Option<String>,
}

impl ColumnArgs {
    /// Returns the column by which rows are held out.
    pub fn split(&self) -> Option<SplitBy> {
        let group = self.split_by.clone().map(SplitBy::Group);
        group.or(self.split_time.clone().map(SplitBy::Time))
    }

    /// Returns what says which targets are censored, if anything does.
    fn censoring(&self) -> Option<Censoring> {
        let column = self.censored.clone().map(Censoring::Column);
        let ends = Censoring::of_ends(self.lower.clone(), self.upper.clone());
        column.or(ends).or(self.cap.map(|cap| Censoring::Cap { cap }))
    }

    /// Returns the options with the likelihood whose only noise is known, if `--noise-std-only` is given.
    pub fn with_noise(&self, options: FitOptions) -> Result<FitOptions> {
        if !self.noise_std_only {
            return Ok(options);
        }
        let asked = options.likelihood_kind();
        let only = asked.known_noise_only().ok_or_else(|| {
            Error::usage(format!("--noise-std-only cannot be combined with --likelihood {asked}, expected gaussian or student-t"))
        })?;
        Ok(FitOptions { likelihood: Some(only), ..options })
    }

    /// Returns the columns of places, if `--places` or `--plane` is given.
    fn places(&self) -> Option<Places> {
        let on = |columns: &Option<[String; 2]>, surface| {
            columns.clone().map(|columns| Places { columns, surface })
        };
        on(&self.places, Surface::Sphere).or(on(&self.plane, Surface::Plane))
    }

    /// Returns the names of the target columns. If a column has exactly the name `--target`, commas included, it is the only target.
    pub fn targets(&self, data: &Path) -> Result<Vec<String>> {
        let names = || column_names(data, self.delimiter);
        let target = self.target();
        if self.target.is_none()
            || !target.contains(',')
            || names()?.is_some_and(|names| names.contains(&target))
        {
            return Ok(vec![target]);
        }
        Ok(target.split(',').map(str::to_owned).collect())
    }

    /// Returns `--target`, or the name of the target that the ends of its interval say.
    fn target(&self) -> String {
        let ends = || Some(interval_name([self.lower.as_deref()?, self.upper.as_deref()?]));
        self.target.clone().or_else(ends).unwrap_or_default()
    }

    /// Reads a file of rows.
    pub fn read(&self, path: &Path) -> Result<Table> {
        let table = read_table_with(path, self.delimiter, &self.missing)?;
        Ok(table.with_interval(self.schema_options().interval()))
    }

    /// Returns the columns of one of several targets; the others are not inputs.
    pub fn of_target(&self, target: &str, targets: &[String]) -> ColumnArgs {
        let others = targets.iter().filter(|other| *other != target).cloned();
        let exclude = self.exclude.iter().cloned().chain(others).collect();
        ColumnArgs { target: Some(target.to_owned()), exclude, ..self.clone() }
    }

    /// Returns the options of the schema.
    pub fn schema_options(&self) -> SchemaOptions {
        SchemaOptions {
            target: self.target(),
            features: self.features.clone(),
            exclude: self.exclude.clone(),
            categorical: self.categorical.clone(),
            ordered: self.ordered.clone(),
            positive_label: self.positive_label.clone(),
            exposure: self.exposure.clone(),
            trials: self.trials.clone(),
            noise_std: self.noise_std.clone(),
            censored: self.censoring(),
            offset: self.offset.clone(),
            weights: self.weights.clone(),
            keep: self.keep.clone(),
            delimiter: self.delimiter,
            missing: self.missing.clone(),
            split: self.split(),
            places: self.places(),
            ..Default::default()
        }
    }
}
