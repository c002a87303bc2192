//! Small data sets as CSV text, for demonstrations and tests; this crate knows nothing else. Its README names their sources.

/// Monthly means of atmospheric CO2 at Mauna Loa, by decimal year: 521 rows.
pub const CO2_MONTHLY: &str = include_str!("co2_monthly.csv");

/// Weekly means of atmospheric CO2 at Mauna Loa, by decimal year: 2225 rows.
pub const CO2_WEEKLY: &str = include_str!("co2_weekly.csv");

/// Two measurements of tumours with their diagnosis: 569 rows.
pub const BREAST_CANCER: &str = include_str!("breast_cancer.csv");

/// Visits to a doctor in a year, with insurance, health and income of the person: 5000 rows.
pub const DOCTOR_VISITS: &str = include_str!("doctor_visits.csv");
