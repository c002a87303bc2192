//! Model files: a model that is read predicts, learns from rows and is explained, and its copy in a
//! new file does the same.
//!
//! A checksum rejects damaged files, and with them almost every input of a fuzzer. Hence the contents of a
//! file have a text form, which is put into a container with the right header and checksum: the JSON
//! description on the first line, then a line per array, `name side side: value value …`. Values are
//! repeated, or cut, to fill the shape.

use rand::SeedableRng;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};
use sparsegp::hyper::{Event, Session};
use sparsegp::likelihood::TargetKind;
use sparsegp::model::Predictions;
use sparsegp_reports::{Explained, ExplainedRow, KeptRows, explained_page};
use sparsegp_tables::explain::Settings;
use sparsegp_tables::schema::{FeatureKind, Schema, UnseenLevels};
use sparsegp_tables::tables::{Column, NamedColumn, Table};
use sparsegp_tables::tabular::TableModel;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of values of an array. Larger files would not be more interesting.
const MOST_VALUES: usize = 4096;

/// The most steps of an update.
const MOST_STEPS: usize = 12;

/// Reads bytes as a model file, and as the text form of one. An input is accepted if it is a model either
/// way.
pub fn run(bytes: &[u8]) -> bool {
    let mut accepted = check(bytes);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(file) = pack(text)
    {
        accepted |= check(&file);
    }
    accepted
}

fn check(file: &[u8]) -> bool {
    let model = match TableModel::from_bytes("model", file) {
        Ok(model) => model,
        Err(error) => {
            assert!(error.exit_code() == 3 && !error.to_string().contains('\n'), "{error}");
            return false;
        }
    };
    assert!(model.hyperparameters().iter().all(|(_, value)| value.is_finite()));
    let again = model.to_bytes().expect("what was read can be written");
    let again = TableModel::from_bytes("again", &again).unwrap_or_else(|error| panic!("{error}"));
    let Some(table) = rows_for(model.schema()) else { return true };
    for say in [predictions, after_rows, explanations] {
        match (say(&model, &table), say(&again, &table)) {
            (Ok(before), Ok(after)) => assert_eq!(before, after, "a copy says otherwise"),
            (Err(before), Err(after)) => {
                assert!(before == after && !before.contains('\n'), "{before:?} against {after:?}");
            }
            (before, after) => panic!("{before:?} against {after:?}"),
        }
    }
    true
}

/// Returns everything that the model predicts after an update with the rows.
fn after_rows(model: &TableModel, table: &Table) -> Result<Vec<u64>, String> {
    let (mut ignore, asked) = (|_: &Event| {}, AtomicUsize::new(0));
    // On hostile numbers, updates may take very many small steps.
    let poll = || asked.fetch_add(1, Ordering::Relaxed) > MOST_STEPS;
    let mut session = Session::new(&mut ignore).with_poll(&poll);
    let updated = model.updated(table, 0.25, &mut session).map_err(|error| error.to_string())?;
    predictions(&updated, table)
}

fn explanations(model: &TableModel, table: &Table) -> Result<Vec<u64>, String> {
    let settings = Settings { columns: 3, repeats: 1, background: 2, orders: 2, ..Settings::default() };
    let text = explained(model, table, &settings).map_err(|error| error.to_string())?;
    Ok(text.bytes().map(u64::from).collect())
}

/// Returns the tables and the page that explain predictions, without the time at the end of the page.
pub fn explained(model: &TableModel, table: &Table, settings: &Settings) -> sparsegp::Result<String> {
    let mut kept = KeptRows::new(model);
    kept.push_table(model, table, UnseenLevels::New)?;
    let inputs = model.schema().design(table, UnseenLevels::New)?.row(0).iter().copied().collect();
    let rows = [ExplainedRow { number: 1, inputs, exposure: 1.0 }];
    let all = [Explained::of((model, &kept, Some("rows")), &rows, 2, settings)];
    let page = explained_page("page", &all, "again").html();
    let tables = Explained::files(&all, false)?.map(|(_, text)| text).concat();
    Ok(tables + page.split("Made by").next().unwrap_or_default())
}

/// Returns three rows with the columns and the target of a model: near 0, far from 0, and with the last
/// categories. Returns `None` if columns share a name.
fn rows_for(schema: &Schema) -> Option<Table> {
    let texts = |levels: [Option<&String>; 3]| {
        Column::from_text(levels.into_iter().map(|level| level.map(String::as_str)))
    };
    let features = schema.features().iter().flat_map(|feature| {
        let column = match &feature.kind {
            FeatureKind::Numeric | FeatureKind::Trees { .. } => Column::Number(vec![0.5, -1e6, 3.0]),
            // Degrees of a place.
            FeatureKind::Place { .. } => Column::Number(vec![0.5, -90.0, 45.0]),
            FeatureKind::Date { .. } => Column::Time(vec![0.0, -1e12, 1.8e9]),
            FeatureKind::Categorical { levels, .. } => texts([levels.first(), levels.last(), levels.last()]),
        };
        let named = move |name: &String| NamedColumn { name: name.clone(), column: column.clone() };
        feature.columns().iter().map(named)
    });
    let exposure = schema
        .exposure_name()
        .map(|name| NamedColumn { name: name.to_owned(), column: Column::Number(vec![1.0, 1e-6, 20.0]) });
    let offset =
        |name: &String| NamedColumn { name: name.clone(), column: Column::Number(vec![0.0, -3.0, 0.25]) };
    let offsets = schema.offset_names().iter().map(offset);
    let encoding = schema.encoding();
    let target = match (encoding.levels(), encoding.kind()) {
        ([], TargetKind::Count) => Column::Number(vec![0.0, 7.0, 1.0]),
        ([], _) => Column::Number(vec![0.5, 0.25, 0.75]),
        (levels, _) => texts([levels.first(), levels.last(), levels.first()]),
    };
    let target = NamedColumn { name: schema.target_name().to_owned(), column: target };
    Table::new("rows", features.chain(exposure).chain(offsets).chain([target]).collect()).ok()
}

/// Returns everything that a model predicts for every row, as the bits of the numbers.
fn predictions(model: &TableModel, table: &Table) -> Result<Vec<u64>, String> {
    let predictions = model.predict(table, UnseenLevels::New).map_err(|error| error.to_string())?;
    let mut said: Vec<f64> = (0..predictions.rows()).flat_map(|row| of_row(&predictions, row)).collect();
    if let Ok(draws) = model.samples(table, UnseenLevels::New, 2, 1) {
        said.extend(draws.concat());
    }
    said.extend(model.coefficients().unwrap_or_default().iter().map(|coefficient| coefficient.mean));
    // All NaN count as equal; their sign and payload have no meaning.
    Ok(said.into_iter().map(|value| if value.is_nan() { f64::NAN } else { value }.to_bits()).collect())
}

fn of_row(predictions: &Predictions, row: usize) -> Vec<f64> {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    let moments = predictions.row(row);
    let mut said = vec![moments.mean, moments.variance, moments.latent_mean, moments.latent_variance];
    said.extend([0.05, 0.5, 0.999].map(|p| predictions.quantile(row, p)));
    said.extend([0.0, 1.0, 0.25, 300.0].map(|target| predictions.log_density(row, target)));
    said.push(predictions.draw(row, &mut random));
    said
}

/// Returns the container of a text form, or `None` if the text is not a text form.
pub fn pack(text: &str) -> Option<Vec<u8>> {
    let mut lines = text.lines();
    let description = lines.next()?;
    let arrays: Vec<Array> =
        lines.filter(|line| !line.trim().is_empty()).map(Array::parse).collect::<Option<_>>()?;
    container("1", description, &arrays)
}

/// Returns a model file with this version, description and arrays, and the matching checksum.
pub fn container(version: &str, description: &str, arrays: &[Array]) -> Option<Vec<u8>> {
    let mut sorted: Vec<&Array> = arrays.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    // No container has two arrays of one name, and the library that writes it relies on that.
    if sorted.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return None;
    }
    let sum = checksum(description, &sorted);
    let fields =
        [("format", "sparsegp-model"), ("version", version), ("model", description), ("sha256", &sum)];
    let metadata = HashMap::from(fields.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let mut views = Vec::with_capacity(sorted.len());
    for array in sorted {
        let view = TensorView::new(Dtype::F64, array.shape.clone(), &array.bytes).ok()?;
        views.push((array.name.clone(), view));
    }
    safetensors::serialize(views, Some(metadata)).ok()
}

fn checksum(description: &str, sorted: &[&Array]) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| hash.update(bytes);
    let length = |length: usize| (length as u64).to_le_bytes();
    add(&length(description.len()));
    add(description.as_bytes());
    for array in sorted {
        add(&length(array.name.len()));
        add(array.name.as_bytes());
        add(&length(array.shape.len()));
        array.shape.iter().for_each(|&side| add(&length(side)));
        add(&array.bytes);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the description and the arrays of a good model file.
pub fn contents(file: &[u8]) -> (String, Vec<Array>) {
    let (_, header) = SafeTensors::read_metadata(file).expect("a container");
    let description =
        header.metadata().as_ref().and_then(|metadata| metadata.get("model")).expect("a description");
    let tensors = SafeTensors::deserialize(file).expect("a container").tensors();
    let array = |(name, tensor): (String, TensorView<'_>)| Array {
        name,
        shape: tensor.shape().to_vec(),
        bytes: tensor.data().to_vec(),
    };
    (description.clone(), tensors.into_iter().map(array).collect())
}

/// A named array of 64-bit floats, row-major.
pub struct Array {
    name: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    fn parse(line: &str) -> Option<Array> {
        let (head, values) = line.split_once(':')?;
        let mut head = head.split_whitespace();
        let name = head.next()?.to_owned();
        let shape: Vec<usize> = head.map(|side| side.parse().ok()).collect::<Option<_>>()?;
        let count = shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side))?;
        let values: Vec<f64> =
            values.split_whitespace().map(|value| value.parse().ok()).collect::<Option<_>>()?;
        if count > MOST_VALUES || values.is_empty() {
            return None;
        }
        let bytes = values.iter().cycle().take(count).flat_map(|value| value.to_le_bytes()).collect();
        Some(Array { name, shape, bytes })
    }
}
