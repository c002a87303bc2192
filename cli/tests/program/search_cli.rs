//! `--inducing auto` and `--neighbours` from the command line: messages, documents and saved models.

use sparsegp_testkit::program::{Work, assert_contains};

const FIT: &str =
    "fit data.csv --target y --kernel matern32 --epochs 5 --tolerance 0 --quiet --test-fraction 0.2";

#[test]
fn found_inducing_inputs_are_in_messages_documents_figures_and_models() {
    let work = Work::new();
    let search = "--objective vfe --inducing auto --inducing-tolerance 8 --max-inducing 90";
    let words =
        ["inducing inputs found", "tried 32", "within 8 nats", "distance to the exact GP", "KL at most"];
    work.prints(&format!("{FIT} {search} --metrics j --report r.html --model-out m"), &words);
    let document = work.json("j");
    let curve = &document["fit"]["inducing_curve"];
    for point in curve.as_array().expect("a curve") {
        assert!(["m", "lower", "upper", "gap", "seconds"].iter().all(|key| point[key].is_number()));
        assert!(point["validation"].is_null());
    }
    let certificate = &document["fit"]["inducing_certificate"];
    let (lower, upper) = (certificate["lower"].as_f64(), certificate["upper"].as_f64());
    assert_eq!(certificate["kl"].as_f64(), upper.zip(lower).map(|(upper, lower)| upper - lower));
    assert_eq!(certificate["chosen"], document["config"]["inducing"]);
    assert_eq!(document["config"]["inducing_auto"], true);
    assert_contains(&certificate["words"].to_string(), &["Kullback-Leibler", "8 nats"]);
    assert_contains(&work.read("r.html"), &["upper bound", "KL at most"]);

    work.prints("inspect m", &["tried 32", "KL at most"]);
    assert_eq!(work.run("inspect m --json").json()["fit"]["inducing_curve"], *curve);
    // A fit that starts from the model takes its inducing inputs, but trains a new posterior.
    let next = work.run("fit data.csv --target y --from m --hyper fixed --json --quiet").json();
    assert_eq!(next["config"]["inducing"], document["config"]["inducing"]);
    assert!(next["fit"]["inducing_curve"].is_null());
}

#[test]
fn neighbours_are_in_messages_documents_and_models() {
    let work = Work::new();
    // 96 of 120 rows are training rows, and 28 of these judge the choices.
    let judged = ["by the log loss of 28 held-out rows"];
    work.prints(&format!("{FIT} --neighbours auto --inducing 20 --metrics j --model-out m"), &judged);
    work.prints("inspect m", &judged);
    let document = work.json("j");
    let parts = document["fit"]["choices"]["parts"].as_array().expect("parts");
    assert_eq!((parts.len(), parts[0]["part"].as_str()), (1, Some("neighbours")));
    let tried = parts[0]["tried"].as_array().expect("numbers of neighbours");
    assert_eq!(tried.len(), 4);
    let chosen = tried.iter().find(|one| one["chosen"] == true).expect("one of them");
    let number = document["config"]["neighbours"].as_u64();
    assert_eq!(chosen["value"], number.map_or("none".to_owned(), |number| number.to_string()));

    let few = format!("{FIT} --neighbours 8 --keep-rows 60 --keep-single --model-out k");
    work.prints(&few, &["inducing inputs, 8 neighbours"]);
    work.prints("inspect k", &["8 nearest of 60 training rows, kept in single precision"]);
    assert_eq!(work.text("predict k data.csv --out -").lines().count(), 121);
    // The hyper-parameters of a model with neighbours can start a fit with another number of neighbours.
    let next = "fit data.csv --target y --from k --hyper fixed --json --quiet --neighbours";
    assert_eq!(work.run(&format!("{next} 20")).json()["config"]["neighbours"], 20);
    work.refuses(2, next, &[("auto", &["--neighbours auto", "--from"])]);
}
