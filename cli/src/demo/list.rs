//! The list that `demo --list` prints.

use super::Example;
use crate::output;
use sparsegp_data::DATA_SETS;

/// Returns a table of the data sets, and a table of their sources and licences.
pub fn text(examples: &[Example]) -> String {
    let row = |cells: [String; 4]| cells.to_vec();
    let mut about = vec![row(["name", "rows × columns", "task", "shows"].map(str::to_owned))];
    let mut origins = vec![["name", "licence", "source"].map(str::to_owned).to_vec()];
    for example in examples {
        let Some(set) = DATA_SETS.iter().find(|set| set.name == example.name) else { continue };
        let (rows, columns) = set.shape();
        let shape = format!("{rows} × {columns}");
        about.push(row([set.name.to_owned(), shape, example.task.to_owned(), example.shows.to_owned()]));
        origins.push([set.name, set.licence, set.source].map(str::to_owned).to_vec());
    }
    let (about, origins) = (output::table(&about), output::table(&origins));
    format!("{about}\n{origins}\nsparsegp demo NAME fits one of them, sparsegp demo all of them\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::EXAMPLES;

    #[test]
    fn every_embedded_data_set_is_listed() {
        let text = text(&EXAMPLES);
        assert!(DATA_SETS.iter().all(|set| text.matches(set.name).count() == 2), "{text}");
        assert!(text.contains("569 × 3"), "{text}");
    }
}
