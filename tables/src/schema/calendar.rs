//! The inputs made of instants, a trend and the phases of day, week and year, with their
//! statistics.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::spread::Spread;
use crate::tables::instant::{DAY, day_of_month, share_of_day, share_of_week, share_of_year};
use sparsegp::data::Affine;

/// The number of seconds in a mean year.
const YEAR: f64 = 365.2425 * DAY;

/// A period of the calendar. The phase of a date in the period makes two inputs, its sine and its cosine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cycle {
    /// Time of day.
    Day,
    /// Day of the week.
    Week,
    /// Day of the year.
    Year,
}

impl Cycle {
    const ALL: [Cycle; 3] = [Cycle::Day, Cycle::Week, Cycle::Year];

    /// Returns the word in the names of its inputs, and the share of the period that has passed at an instant.
    fn of(self) -> (&'static str, fn(f64) -> f64) {
        match self {
            Cycle::Day => ("day", share_of_day),
            Cycle::Week => ("week", share_of_week),
            Cycle::Year => ("year", share_of_year),
        }
    }

    pub(super) fn word(self) -> &'static str {
        self.of().0
    }

    /// Returns sine and cosine of the phase of an instant.
    pub(super) fn phase(self, seconds: f64) -> [f64; 2] {
        let (sine, cosine) = (TAU * self.of().1(seconds)).sin_cos();
        [sine, cosine]
    }
}

pub(super) fn years(from: f64, to: f64) -> f64 {
    (to - from) / YEAR
}

/// Returns the instant this number of years after another one, to the second.
pub fn after(from: f64, years: f64) -> f64 {
    (from + years * YEAR).round()
}

/// The differences above which two dates show the day, the week and the year, in the share of the day, the day of the month and the share of
/// the year.
const DIFFERENT: [f64; 3] = [0.0, 0.0, 0.01];

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Calendar {
    pub(super) seconds: Spread,
    /// The share of the day, the day of the month and the share of the year of the first date; `differ` is true for each number that differs in
    /// another date.
    first: Option<[f64; 3]>,
    differ: [bool; 3],
    weekdays: u8,
    phases: [[Spread; 2]; 3],
}

impl Calendar {
    pub(super) fn push(&mut self, seconds: f64) {
        self.seconds.push(seconds);
        self.compare([share_of_day(seconds), day_of_month(seconds) as f64, share_of_year(seconds)]);
        self.weekdays |= 1 << (share_of_week(seconds) * 7.0).round() as u8;
        for (cycle, phases) in Cycle::ALL.iter().zip(&mut self.phases) {
            cycle.phase(seconds).into_iter().zip(phases).for_each(|(phase, spread)| spread.push(phase));
        }
    }

    fn compare(&mut self, date: [f64; 3]) {
        let first = *self.first.get_or_insert(date);
        for (k, known) in self.differ.iter_mut().enumerate() {
            *known |= (date[k] - first[k]).abs() > DIFFERENT[k];
        }
    }

    pub(super) fn merge(&mut self, later: Calendar) {
        self.seconds.merge(later.seconds);
        later.first.into_iter().for_each(|first| self.compare(first));
        self.differ.iter_mut().zip(later.differ).for_each(|(known, differ)| *known |= differ);
        self.weekdays |= later.weekdays;
        for (own, later) in self.phases.as_flattened_mut().iter_mut().zip(later.phases.as_flattened()) {
            own.merge(*later);
        }
    }

    /// Returns the periods that these instants can show: the day if times vary; the week if the instants span a week or more, unless all
    /// fall on one day of the month, as monthly data do; the year if they span a year or more.
    pub(super) fn cycles(&self) -> Vec<Cycle> {
        let (first, last) = self.seconds.range();
        let days = (last - first) / DAY;
        let [time, day_of_month, day_of_year] = self.differ;
        let shown = |cycle: &Cycle| match cycle {
            Cycle::Day => time,
            Cycle::Week => self.weekdays.count_ones() > 1 && days >= 7.0 && day_of_month,
            Cycle::Year => days >= 365.0 && day_of_year,
        };
        Cycle::ALL.into_iter().filter(shown).collect()
    }

    /// Returns the scaling of the inputs of a date over these rows and `missing` further rows, whose trend is the mean and whose phases are
    /// 0.
    pub(super) fn affines(&self, origin: f64, cycles: &[Cycle], missing: usize) -> Vec<Affine> {
        let Affine { shift, scale } = self.seconds.affine();
        let present = self.seconds.count() as f64;
        let share = if present > 0.0 { present / (present + missing as f64) } else { 1.0 };
        let scale = if self.seconds.varies() { scale / YEAR * share.sqrt() } else { 1.0 };
        let mut affines = vec![Affine { shift: years(origin, shift), scale }];
        for (_, spreads) in Cycle::ALL.iter().zip(&self.phases).filter(|(cycle, _)| cycles.contains(cycle)) {
            affines.extend(spreads.iter().map(|spread| {
                let Affine { shift, scale } = spread.affine();
                let mean = share * shift;
                let square = share * (scale * scale + shift * shift) - mean * mean;
                Affine { shift: mean, scale: if square > 0.0 { square.sqrt() } else { 1.0 } }
            }));
        }
        affines
    }
}
