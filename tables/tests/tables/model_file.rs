//! The model file: a written model reads back to the same predictions; other files are refused without a
//! panic.

use super::common::*;
use super::fuzzing::model::{container, contents};
use std::sync::OnceLock;

fn table() -> Table {
    let row = |row: usize| {
        let (x, colour) = (row as f64 / 10.0, ["red", "green", "blue"][row % 3]);
        format!("{x},{colour},{}\n", 1e3 + 7.0 * x.sin() + (row % 3) as f64)
    };
    csv("x,colour,y\n".to_owned() + &(0..80).map(row).collect::<String>())
}

fn fit(options: &FitOptions, start: Option<&TableModel>) -> TableModel {
    fit_from(&table(), &target("y"), options, start).expect("a fit")
}

fn options(objective: ObjectiveKind, kernel: &str) -> FitOptions {
    FitOptions { objective, kernel: kernel.into(), ..small(12, 5) }
}

/// The contents of one good file, fitted once.
fn good() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| fit(&options(ObjectiveKind::Vfe, "rbf(ard)"), None).to_bytes().expect("bytes"))
}

fn refusal(bytes: &[u8]) -> String {
    match TableModel::from_bytes("m", bytes) {
        Ok(_) => panic!("accepted"),
        Err(error) => {
            assert_eq!(error.exit_code(), 3);
            let message = error.to_string();
            assert!(message.starts_with("m: ") && !message.contains('\n'), "{message}");
            message
        }
    }
}

/// The good file with its metadata changed, and the checksum of the original.
fn with_metadata(change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) -> Vec<u8> {
    let bytes = good();
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    change(header["__metadata__"].as_object_mut().expect("metadata"));
    let mut header = serde_json::to_vec(&header).expect("a header");
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes(), &header[..], &bytes[8 + length..]].concat()
}

#[test]
fn numbers_that_predict_none_are_refused() {
    let (description, arrays) = contents(good());
    // Each number alone would be valid in a model.
    for (parameter, value) in [("/scaling/target/scale", 1e308), ("/mean/values/0", -1.5e308)] {
        let mut changed: serde_json::Value = serde_json::from_str(&description).expect("JSON");
        for (name, value) in [("/mean/values/0", 7.0), (parameter, value)] {
            *changed.pointer_mut(name).unwrap_or_else(|| panic!("{name}: {description}")) = value.into();
        }
        let crafted = container("1", &changed.to_string(), &arrays).expect("a container");
        assert!(refusal(&crafted).contains("its predictions are not finite numbers"), "{parameter}");
    }
}

#[test]
fn foreign_newer_and_truncated_files_have_different_messages() {
    assert!(refusal(b"").contains("not a sparsegp model file"));
    assert!(refusal(b"x,y\n1,2\n3,4\n5,6\n").contains("not a sparsegp model file"));
    let foreign = safetensors::serialize(Vec::<(&str, safetensors::tensor::TensorView<'_>)>::new(), None);
    assert!(refusal(&foreign.expect("bytes")).contains("not a sparsegp model file"));
    let newer = with_metadata(|metadata| {
        metadata.insert("version".into(), "2".into());
    });
    assert!(refusal(&newer).contains("format version \"2\", expected 1"));
    let without = with_metadata(|metadata| {
        metadata.remove("sha256");
    });
    assert!(refusal(&without).contains("its header has no sha256"));
    let edited = with_metadata(|metadata| {
        let text = metadata["model"].as_str().expect("text").replace("1e-6", "1e-5");
        metadata.insert("model".into(), text.into());
    });
    assert!(edited == *good() || refusal(&edited).contains("checksum"));
    for length in [8, 100, good().len() / 2, good().len() - 1] {
        assert!(refusal(&good()[..length]).contains("damaged"), "{length}");
    }
    let longer = [good(), b"more"].concat();
    assert!(refusal(&longer).contains("damaged"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_flipped_bit_goes_unnoticed(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = good().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // A flip within the header may preserve its meaning (a blank for a tab); then the model is the same.
        if let Ok(read) = TableModel::from_bytes("m", &bytes) {
            let original = TableModel::from_bytes("m", good()).expect("a model");
            prop_assert_eq!(read.hyperparameters(), original.hyperparameters());
            prop_assert_eq!(read.q().cov().full(), original.q().cov().full());
        } else {
            refusal(&bytes);
        }
    }
}
