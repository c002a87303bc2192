//! Dates and times of day as seconds since 1970 in UTC, parsed from common text forms, and back to
//! the calendar.

use serde::{Deserialize, Serialize};

/// The maximum length of a date in bytes.
const LONGEST: usize = 64;

const MONTHS: &str = "January February March April May June July August September October November December";
const WEEKDAYS: &str = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday";

/// Seconds of a day.
pub(crate) const DAY: f64 = 86_400.0;

/// The order in which a date is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateOrder {
    /// 2024-01-31, as in ISO 8601.
    YearMonthDay,
    /// 31.01.2024.
    DayMonthYear,
    /// 01/31/2024.
    MonthDayYear,
}

/// All orders, each with its bit in a set of orders.
pub(crate) const ORDERS: [(DateOrder, u8); 3] =
    [(DateOrder::YearMonthDay, 1), (DateOrder::DayMonthYear, 2), (DateOrder::MonthDayYear, 4)];

/// The set of all orders.
pub(crate) const ALL_ORDERS: u8 = 7;

/// Returns the set of orders in which a text is a date, with or without a time.
pub(crate) fn orders(text: &str) -> u8 {
    ORDERS.iter().filter(|(order, _)| seconds(text, *order).is_some()).map(|(_, bit)| bit).sum()
}

/// Returns the instant of a text in this order; without a zone it is UTC.
pub(crate) fn seconds(text: &str, order: DateOrder) -> Option<f64> {
    let text = text.trim();
    if text.len() > LONGEST {
        return None;
    }
    if let Some((days, time)) = worded(text, order) {
        let seconds = if time.is_empty() { 0.0 } else { time_of_day(time)? };
        return Some(days as f64 * DAY + seconds);
    }
    let end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let days = date(&text[..end], order)?;
    let time = text[end..].trim_start_matches(['T', 't', ' ']);
    let seconds = if end == text.len() { 0.0 } else { time_of_day(time)? };
    Some(days as f64 * DAY + seconds)
}

/// Reads a date with the name of its month in English, as in `Jan 1, 2020`, `1-Jan-20`, `Monday, 1st January 2020` and `2020 Jan 1`; `Jan 2020`
/// is the first of that month, and counts as month first. Returns the days since 1970, and the text after the date.
fn worded(text: &str, order: DateOrder) -> Option<(i64, &str)> {
    let (mut month, mut numbers, mut rest) = (None, Vec::new(), text);
    let mut first_is_month = false;
    while numbers.len() < 2 || month.is_none() {
        let start = rest.trim_start_matches([' ', ',', '-', '/', '.']);
        let length = start.find([' ', ',', '-', '/', '.']).unwrap_or(start.len());
        let word = &start[..length];
        if word.is_empty() || word.contains(':') {
            break;
        }
        if let Some(number) = month_of(word).filter(|_| month.is_none()) {
            first_is_month = numbers.is_empty();
            month = Some(number as i64 + 1);
        } else if let Some(number) = day_or_year(word) {
            numbers.push(number);
        } else if weekday_of(word).is_none() || month.is_some() || !numbers.is_empty() {
            return None;
        }
        rest = &start[length..];
    }
    let month = month?;
    let year = |(number, digits): (i64, usize)| match digits {
        4 => Some(number),
        2 => Some(whole_year(number)),
        _ => None,
    };
    let (year, day) = match (numbers.as_slice(), order) {
        (&[(number, 4)], DateOrder::MonthDayYear) if first_is_month => (number, 1),
        (&[(year, 4), (day, 1..=2)], DateOrder::YearMonthDay) if !first_is_month => (year, day),
        (&[(day, digits), last], DateOrder::MonthDayYear) if first_is_month && digits != 4 => {
            (year(last)?, day)
        }
        (&[(day, digits), last], DateOrder::DayMonthYear) if !first_is_month && digits != 4 => {
            (year(last)?, day)
        }
        _ => return None,
    };
    Some((existing(year, month, day)?, rest.trim_start_matches([' ', ','])))
}

/// Returns the month with this English name, from 0: in full, in three letters, or `Sept`.
pub(crate) fn month_of(word: &str) -> Option<usize> {
    position_of_name(MONTHS, if word.eq_ignore_ascii_case("sept") { "sep" } else { word })
}

/// Returns the day of the week with this English name, from 0 for Monday: in full or in three letters.
pub(crate) fn weekday_of(word: &str) -> Option<usize> {
    position_of_name(WEEKDAYS, word)
}

fn position_of_name(names: &str, word: &str) -> Option<usize> {
    let is = |name: &str| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(&name[..3]);
    names.split(' ').position(is)
}

/// Returns the number of a day (1 or 1st) or a year, and its number of digits.
fn day_or_year(word: &str) -> Option<(i64, usize)> {
    let ending = |end: &&str| {
        word.len() > 2
            && word.is_char_boundary(word.len() - 2)
            && word[word.len() - 2..].eq_ignore_ascii_case(end)
    };
    let digits = if ["st", "nd", "rd", "th"].iter().any(ending) { &word[..word.len() - 2] } else { word };
    number(digits, 4).map(|number| (number, digits.len()))
}

/// Returns the number of one to `most` digits.
fn number(text: &str, most: usize) -> Option<i64> {
    let digits = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Returns the year of two digits, by the rule of POSIX.
fn whole_year(two_digits: i64) -> i64 {
    if two_digits < 69 { 2000 + two_digits } else { 1900 + two_digits }
}

/// Returns the days since 1970 of a date.
fn date(text: &str, order: DateOrder) -> Option<i64> {
    let mark = text.chars().find(|c| !c.is_ascii_digit()).filter(|mark| "-/.".contains(*mark))?;
    let fields: Vec<&str> = text.split(mark).collect();
    let year = |text: &str| number(text, 4).filter(|_| text.len() == 4);
    // Two digits are a year if they come last, unless they could be a day or a version.
    let last = |text: &str| match text.len() {
        2 if mark == '/' || (mark == '.' && fields.iter().all(|field| field.len() == 2)) => {
            number(text, 2).map(whole_year)
        }
        _ => year(text),
    };
    let (year, month, day) = match (fields.as_slice(), order) {
        ([y, m], DateOrder::YearMonthDay) if mark == '-' && m.len() == 2 => (year(y)?, number(m, 2)?, 1),
        ([y, m, d], DateOrder::YearMonthDay) => (year(y)?, number(m, 2)?, number(d, 2)?),
        ([d, m, y], DateOrder::DayMonthYear) => (last(y)?, number(m, 2)?, number(d, 2)?),
        // Dates with points never have the month first.
        ([m, d, y], DateOrder::MonthDayYear) if mark != '.' => (last(y)?, number(m, 2)?, number(d, 2)?),
        _ => return None,
    };
    existing(year, month, day)
}

/// Returns the seconds since midnight in UTC of HH:MM, HH:MM:SS or HH:MM:SS.F, with AM or PM, and with Z or an offset from UTC.
fn time_of_day(text: &str) -> Option<f64> {
    let (clock, zone) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) => (text[..at].trim_end(), zone(&text[at..])?),
        None => (text, 0.0),
    };
    let upper = clock.to_ascii_uppercase();
    let half = ["AM", "PM"].into_iter().find(|half| upper.ends_with(half));
    let clock = half.map_or(upper.as_str(), |half| upper.trim_end_matches(half)).trim_end();
    let mut fields = clock.split(':');
    let whole = |text: Option<&str>, below: f64| -> Option<f64> {
        number(text?, 2).map(|number| number as f64).filter(|&value| value < below)
    };
    let (mut hour, minute) = (whole(fields.next(), 24.0)?, whole(fields.next(), 60.0)?);
    let second = fields.next().map_or(Some(0.0), |text| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse::<f64>().ok().filter(|value| digits && *value < 61.0)
    })?;
    if let Some(half) = half {
        hour = if (1.0..=12.0).contains(&hour) {
            hour % 12.0 + if half == "PM" { 12.0 } else { 0.0 }
        } else {
            return None;
        };
    }
    fields.next().is_none().then_some(3600.0 * hour + 60.0 * minute + second - zone)
}

/// Returns the offset of a zone from UTC, in seconds.
fn zone(text: &str) -> Option<f64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let digits: String = text[1..].chars().filter(|&c| c != ':').collect();
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "0"),
        4 => digits.split_at(2),
        _ => return None,
    };
    Some(
        sign * (3600.0 * f64::from(hours.parse::<u8>().ok()?)
            + 60.0 * f64::from(minutes.parse::<u8>().ok()?)),
    )
}

/// Returns the days from the beginning of 1970 to a day of the Gregorian calendar, counted from 1 like the month. Years begin in March here,
/// so that the leap day comes last (Hinnant 2021, "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the year, the month and the day of the month, both from 1, of a day since the beginning of 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let of_era = (days + 719_468).rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let year = year + (days + 719_468).div_euclid(146_097) * 400 + i64::from(month > 9);
    (year, (month + 2) % 12 + 1, of_year - (153 * month + 2) / 5 + 1)
}

/// Returns the days since 1970 of a date that exists.
fn existing(year: i64, month: i64, day: i64) -> Option<i64> {
    let days = days(year, month, day);
    (date_of(days) == (year, month, day)).then_some(days)
}

/// Returns the number of months from the beginning of year 0 to the month of an instant.
pub(crate) fn month_number(seconds: f64) -> i64 {
    let (year, month, _) = calendar_day(seconds);
    12 * year + month - 1
}

/// Returns the instant some months after another one, at the same time of day; a day that the month lacks becomes its last day. `last` is
/// true for the last days of months.
pub(crate) fn months_after(seconds: f64, months: i64, last: bool) -> f64 {
    let number = month_number(seconds) + months;
    let (year, month) = (number.div_euclid(12), number.rem_euclid(12) + 1);
    let day = if last { 31 } else { calendar_day(seconds).2 };
    let existing = (1..=day).rev().find_map(|day| existing(year, month, day));
    existing.map_or(seconds, |days| days as f64 * DAY + seconds.rem_euclid(DAY))
}

/// Returns true if an instant is in the last day of its month.
pub(crate) fn is_last_of_month(seconds: f64) -> bool {
    month_number(seconds + DAY) != month_number(seconds)
}

/// Returns the share of the year that has passed at an instant.
pub(crate) fn share_of_year(seconds: f64) -> f64 {
    let (year, _, _) = calendar_day(seconds);
    let (start, end) = (days(year, 1, 1) as f64 * DAY, days(year + 1, 1, 1) as f64 * DAY);
    (seconds - start) / (end - start)
}

/// Returns the day of the month, from 0.
pub(crate) fn day_of_month(seconds: f64) -> i64 {
    calendar_day(seconds).2 - 1
}

/// Returns the year, the month and the day of the month of an instant.
fn calendar_day(seconds: f64) -> (i64, i64, i64) {
    date_of((seconds / DAY).floor() as i64)
}

/// Returns the share of the week (from Monday) that had passed when the day began.
pub(crate) fn share_of_week(seconds: f64) -> f64 {
    // The first day of 1970 was a Thursday.
    ((seconds / DAY).floor() + 3.0).rem_euclid(7.0) / 7.0
}

/// Returns the share of the day that has passed at an instant.
pub(crate) fn share_of_day(seconds: f64) -> f64 {
    seconds.rem_euclid(DAY) / DAY
}

/// Returns the date for messages, with the time of day unless it is midnight.
pub fn spelled(seconds: f64) -> String {
    let (year, month, day) = calendar_day(seconds);
    let date = format!("{year:04}-{month:02}-{day:02}");
    let minutes = (seconds.rem_euclid(DAY) / 60.0) as i64;
    if seconds.rem_euclid(DAY) == 0.0 {
        date
    } else {
        format!("{date} {:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Returns the instant in ISO 8601, to the microsecond.
pub(crate) fn exact(seconds: f64) -> String {
    let micros = ((seconds - seconds.floor()) * 1e6).round() as i64;
    let whole = seconds.floor() + (micros / 1_000_000) as f64;
    let clock = whole.rem_euclid(DAY) as i64;
    let date = spelled(whole - clock as f64);
    let fraction = match micros % 1_000_000 {
        0 => String::new(),
        micros => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    };
    format!("{date}T{:02}:{:02}:{:02}{fraction}", clock / 3600, clock / 60 % 60, clock % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DateOrder::{DayMonthYear, MonthDayYear, YearMonthDay};

    #[test]
    fn dates_and_times_are_read_in_their_forms() {
        let day = |days: f64| Some(days * DAY);
        assert_eq!(seconds("1970-01-01", YearMonthDay), day(0.0));
        assert_eq!(seconds("2000-03-01", YearMonthDay), day(11_017.0));
        assert_eq!(seconds("1969/12/31", YearMonthDay), day(-1.0));
        assert_eq!(seconds("2024-02", YearMonthDay), day(19_754.0));
        assert_eq!(seconds("31.01.2024", DayMonthYear), seconds("2024-01-31", YearMonthDay));
        assert_eq!(seconds("1/31/2024", MonthDayYear), seconds("2024-01-31", YearMonthDay));
        let noon = seconds("2024-01-31T12:30:15.5Z", YearMonthDay).expect("an instant");
        assert_eq!(noon, seconds("2024-01-31", YearMonthDay).expect("a day") + 45_015.5);
        for text in [
            "2024-01-31 12:30:15.5",
            "2024-01-31T14:30:15.5+02:00",
            "2024-01-31 07:30:15.5-0500",
            "2024-01-31 12:30:15.5 PM",
        ] {
            assert_eq!(seconds(text, YearMonthDay), Some(noon), "{text}");
        }
        assert_eq!(orders("05/06/2024"), 6);
        assert_eq!(orders("13/06/2024"), 2);
        assert_eq!(orders("06/13/2024"), 4);
        assert_eq!(orders("05.06.2024"), 2);
        assert_eq!(orders("2024-06-05"), 1);
        let none = "2023-02-29|2024-13-01|24-01-31|2024|12:30|2024-01-31 25:00|1.5|a-b-c|2024-01-31T|é-1-2";
        for text in none.split('|') {
            assert_eq!(orders(text), 0, "{text}");
        }
    }

    #[test]
    fn months_have_names_and_years_two_digits() {
        let day = |text: &str| seconds(text, YearMonthDay);
        for (text, order) in [
            ("Jan 31, 2024", MonthDayYear),
            ("january 31 2024", MonthDayYear),
            ("Wed, Jan 31, 2024", MonthDayYear),
            ("31 Jan 2024", DayMonthYear),
            ("31-Jan-24", DayMonthYear),
            ("31-JAN-2024", DayMonthYear),
            ("31-JAN-2024 00:00", DayMonthYear),
            ("31st January, 2024", DayMonthYear),
            ("2024-Jan-31", YearMonthDay),
            ("31/01/24", DayMonthYear),
            ("1/31/24", MonthDayYear),
            ("31.01.24", DayMonthYear),
        ] {
            assert_eq!(seconds(text, order), day("2024-01-31"), "{text}");
            assert_eq!(orders(text).count_ones(), 1, "{text}");
        }
        assert_eq!(seconds("Sept 3, 1999 2:05 PM", MonthDayYear), day("1999-09-03 14:05"));
        assert_eq!(seconds("Wed, 03 Sep 1999 14:05:00 +0000", DayMonthYear), day("1999-09-03 14:05"));
        assert_eq!(seconds("03Sep 1999", DayMonthYear), None);
        assert_eq!(seconds("May 2020", MonthDayYear), day("2020-05-01"));
        assert_eq!(seconds("3-OCT-99", DayMonthYear), day("1999-10-03"));
        let none =
            "May|May 3|Feb 30, 2020|Mayor 3, 2020|March 2020 Madness|1 2 Jan|é Jan 2020|Sat|31-01-24|1.2.10";
        for text in none.split('|') {
            assert_eq!(orders(text), 0, "{text}");
        }
    }

    #[test]
    fn the_calendar_is_known() {
        let at = |text| seconds(text, YearMonthDay).expect("an instant");
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut next = days(-2000, 1, 1);
        for year in -2000..4000 {
            for (month, length) in (1..).zip([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
                for day in 1..=length + i64::from(month == 2 && leap(year)) {
                    assert_eq!((days(year, month, day), date_of(next)), (next, (year, month, day)));
                    next += 1;
                }
            }
        }
        assert_eq!(share_of_year(at("2023-01-01")), 0.0);
        assert_eq!(share_of_year(at("2024-07-02")), 0.5);
        assert_eq!(share_of_week(at("2024-01-01")), 0.0);
        assert_eq!(share_of_week(at("1969-12-28 23:00")), 6.0 / 7.0);
        assert_eq!(share_of_day(at("1969-12-28 06:00")), 0.25);
        assert_eq!((day_of_month(at("2024-02-29 10:00")), day_of_month(at("1900-03-01"))), (28, 0));
        assert_eq!(
            (spelled(at("2024-02-29")), spelled(at("1899-12-31 06:05"))),
            ("2024-02-29".into(), "1899-12-31 06:05".into())
        );
    }
}
