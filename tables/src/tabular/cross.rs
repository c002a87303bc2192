//! The parts of a cross-validation, that is, the rows that each fit leaves out.

use super::held_out::{groups_in, times_in};
use crate::schema::SplitBy;
use crate::tables::{Column, Table};
use rand::seq::SliceRandom;
use sparsegp::data::{Purpose, generator};
use sparsegp::error::{Error, Result};

/// The maximum number of distinct values for targets of numbers that are distributed over the parts like classes.
const MOST_LEVELS: usize = 20;

/// The rows of one fit, in the order of the table.
pub struct Fold {
    /// The rows that are trained on.
    pub train: Vec<usize>,
    /// The rows that are predicted.
    pub test: Vec<usize>,
}

/// Returns the folds of a table whose rows all have a target: `count` parts of the rows, each predicted from all others.
///
/// Rows are dealt to the parts at random; with one target every class, and every value of a target with few distinct numbers,
/// is dealt in equal shares. Rows of a group stay together. With times, the rows are cut into `count + 1`
/// consecutive parts, and each part except the first is predicted from all earlier parts.
///
/// # Errors
///
/// A usage error if there are fewer rows, groups or times than parts; data errors about the column to split by.
pub fn folds(
    table: &Table,
    targets: &[String],
    by: Option<&SplitBy>,
    count: usize,
    seed: u64,
) -> Result<Vec<Fold>> {
    let part = match by {
        None => match targets {
            [target] => dealt(&strata(table, target)?, count, seed),
            _ => dealt(&vec![0; table.rows()], count, seed),
        },
        Some(SplitBy::Group(name)) => groups_dealt(&groups_in(&|take| take(table), name)?, count, seed),
        Some(SplitBy::Time(name)) => in_order(&times_in(&|take| take(table), name)?, count + 1),
    };
    let in_time = matches!(by, Some(SplitBy::Time(_)));
    let first = usize::from(in_time);
    let rows = |wanted: &dyn Fn(usize) -> bool| (0..table.rows()).filter(|&row| wanted(part[row])).collect();
    let folds: Vec<Fold> = (first..count + first)
        .map(|fold| Fold {
            train: rows(&|part| if in_time { part < fold } else { part != fold }),
            test: rows(&|part| part == fold),
        })
        .collect();
    match folds.iter().any(|fold| fold.train.is_empty() || fold.test.is_empty()) {
        true => {
            Err(Error::usage(format!("⟨cv {count}⟩ needs at least {count} rows, groups or different times")))
        }
        false => Ok(folds),
    }
}

/// Returns the stratum of every row, numbered in the order of first rows: its class, or its value if the
/// target has few distinct numbers.
fn strata(table: &Table, target: &str) -> Result<Vec<u32>> {
    let strata = groups_in(&|take| take(table), target)?;
    let many = strata.iter().any(|&stratum| stratum as usize >= MOST_LEVELS);
    let are_numbers = table.column(target).and_then(Column::numbers).is_some();
    Ok(if many && are_numbers { vec![0; strata.len()] } else { strata })
}

/// Deals shuffled rows out, stratum by stratum.
fn dealt(strata: &[u32], count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..strata.len()).collect();
    order.shuffle(&mut generator(seed, Purpose::Split, 1));
    order.sort_by_key(|&row| strata[row]);
    let mut part = vec![0; strata.len()];
    order.into_iter().enumerate().for_each(|(place, row)| part[row] = place % count);
    part
}

/// Deals shuffled groups out, the largest first, each to the part with the fewest rows.
fn groups_dealt(groups: &[u32], count: usize, seed: u64) -> Vec<usize> {
    let number = groups.iter().map(|&group| group as usize + 1).max().unwrap_or(0);
    let mut sizes = vec![0; number];
    groups.iter().for_each(|&group| sizes[group as usize] += 1);
    let mut order: Vec<usize> = (0..number).collect();
    order.shuffle(&mut generator(seed, Purpose::Split, 1));
    order.sort_by_key(|&group| std::cmp::Reverse(sizes[group]));
    let (mut part, mut filled) = (vec![0; number], vec![0; count]);
    for group in order {
        let smallest = (0..count).min_by_key(|&fold| filled[fold]).unwrap_or(0);
        part[group] = smallest;
        filled[smallest] += sizes[group];
    }
    groups.iter().map(|&group| part[group as usize]).collect()
}

/// Cuts the rows into parts of about equal size in the order of their times; rows of one time stay in one part.
fn in_order(times: &[f64], parts: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    let mut part = vec![0; times.len()];
    let mut last: Option<(f64, usize)> = None;
    for (place, row) in order.into_iter().enumerate() {
        let own = match last {
            Some((time, part)) if time == times[row] => part,
            _ => place * parts / times.len(),
        };
        last = Some((times[row], own));
        part[row] = own;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::read_csv;
    use std::io::Cursor;

    fn table(rows: usize, row: impl Fn(usize) -> String) -> Table {
        let text: String = std::iter::once("y,g,t\n".to_owned()).chain((0..rows).map(row)).collect();
        read_csv("table", Cursor::new(text)).unwrap()
    }

    fn parts(folds: &[Fold], rows: usize) -> Vec<usize> {
        let mut times = vec![0; rows];
        folds.iter().flat_map(|fold| &fold.test).for_each(|&row| times[row] += 1);
        times
    }

    #[test]
    fn every_row_is_predicted_once_and_classes_keep_their_shares() {
        let table = table(50, |i| format!("{},a,{i}\n", if i % 10 == 3 { "rare" } else { "common" }));
        let folds = folds(&table, &["y".into()], None, 5, 0).unwrap();
        assert_eq!(parts(&folds, 50), vec![1; 50]);
        for fold in &folds {
            assert_eq!((fold.train.len(), fold.test.len()), (40, 10));
            assert_eq!(fold.test.iter().filter(|&&row| row % 10 == 3).count(), 1);
            assert!(fold.train.iter().all(|row| !fold.test.contains(row)));
        }
    }

    #[test]
    fn groups_stay_together_in_parts_of_like_size() {
        let table = table(60, |i| format!("{},g{},{i}\n", i as f64 * 0.1, i % 7));
        let by = SplitBy::Group("g".into());
        let folds = folds(&table, &["y".into()], Some(&by), 3, 1).unwrap();
        assert_eq!(parts(&folds, 60), vec![1; 60]);
        for fold in &folds {
            assert!((16..=26).contains(&fold.test.len()), "{}", fold.test.len());
            assert!(fold.train.iter().all(|row| fold.test.iter().all(|other| row % 7 != other % 7)));
        }
    }
}
