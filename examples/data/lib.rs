//! Small data sets as CSV text with their sources and licences, for demonstrations and tests.

/// A data set and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSet {
    /// The name of the file without its extension.
    pub name: &'static str,
    /// The rows as CSV text with a header.
    pub text: &'static str,
    /// The publication of the data; the README of this crate has the full reference.
    pub source: &'static str,
    /// The licence.
    pub licence: &'static str,
}

impl DataSet {
    /// Returns the numbers of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        let mut lines = self.text.lines();
        let columns = lines.next().map_or(0, |header| header.split(',').count());
        (lines.count(), columns)
    }
}

/// All data sets of this crate.
pub const DATA_SETS: [DataSet; 4] = [
    DataSet {
        name: "co2_monthly",
        text: CO2_MONTHLY,
        source: "Keeling and Whorf (2004), CDIAC, Oak Ridge National Laboratory",
        licence: "public domain",
    },
    DataSet {
        name: "co2_weekly",
        text: CO2_WEEKLY,
        source: "Keeling and Whorf (2004), CDIAC, Oak Ridge National Laboratory",
        licence: "public domain",
    },
    DataSet {
        name: "breast_cancer",
        text: BREAST_CANCER,
        source: "Wolberg et al. (1995), UCI, DOI 10.24432/C5DW2B",
        licence: "CC BY 4.0",
    },
    DataSet {
        name: "doctor_visits",
        text: DOCTOR_VISITS,
        source: "RAND Health Insurance Experiment, Cameron and Trivedi (2005)",
        licence: "public domain",
    },
];

/// Monthly means of atmospheric CO2 at Mauna Loa, by decimal year: 521 rows.
pub const CO2_MONTHLY: &str = include_str!("co2_monthly.csv");

/// Weekly means of atmospheric CO2 at Mauna Loa, by decimal year: 2225 rows.
pub const CO2_WEEKLY: &str = include_str!("co2_weekly.csv");

/// Two measurements of tumours with their diagnosis: 569 rows.
pub const BREAST_CANCER: &str = include_str!("breast_cancer.csv");

/// Visits to a doctor in a year, with insurance, health and income of the person: 5000 rows.
pub const DOCTOR_VISITS: &str = include_str!("doctor_visits.csv");
