//! `--inducing auto` and `--neighbours` from the command line: messages, documents and saved models.

use sparsegp_testkit::program::{Work, assert_contains};

const QUICK: &str = "--epochs 5 --tolerance 0 --quiet --test-fraction 0.2";

#[test]
fn found_inducing_inputs_are_in_messages_documents_figures_and_models() {
    let work = Work::new();
    let files = "--metrics j --report r.html --model-out m";
    let run = work.run(&format!(
        "fit data.csv --target y --objective vfe --inducing auto --inducing-tolerance 8 --max-inducing 90 --kernel matern32 {QUICK} {files}"
    ));
    let text = run.ok().stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains(
        &text,
        &["inducing inputs found", "tried 32", "within 8 nats", "distance to the exact GP", "KL at most"],
    );
    let document = work.json("j");
    let curve = document["fit"]["inducing_curve"].as_array().expect("a curve").clone();
    for key in ["m", "lower", "upper", "gap", "seconds"] {
        assert!(curve.iter().all(|point| point[key].is_number()), "{key} in {curve:?}");
    }
    assert!(curve.iter().all(|point| point["validation"].is_null()));
    let certificate = &document["fit"]["inducing_certificate"];
    let (lower, upper) = (certificate["lower"].as_f64(), certificate["upper"].as_f64());
    assert_eq!(certificate["kl"].as_f64(), upper.zip(lower).map(|(upper, lower)| upper - lower));
    assert_eq!(certificate["chosen"], document["config"]["inducing"]);
    assert_eq!(document["config"]["inducing_auto"], true);
    let words = certificate["words"].as_str().expect("words");
    assert!(words.contains("Kullback-Leibler") && words.contains("8 nats"), "{words}");
    assert!(work.read("r.html").contains("upper bound") && work.read("r.html").contains("KL at most"));

    let shown = work.run("inspect m").ok().stdout();
    assert!(shown.contains("tried 32") && shown.contains("KL at most"), "{shown}");
    let kept = work.run("inspect m --json").json();
    assert_eq!(kept["fit"]["inducing_curve"], document["fit"]["inducing_curve"]);
    // A fit that starts from the model takes its inducing inputs, but trains a new posterior.
    let next = work.run("fit data.csv --target y --from m --hyper fixed --json --quiet").json();
    assert_eq!(next["config"]["inducing"], document["config"]["inducing"]);
    assert!(next["fit"]["inducing_curve"].is_null());
}

#[test]
fn neighbours_are_in_messages_documents_and_models() {
    let work = Work::new();
    let auto = format!(
        "fit data.csv --target y --neighbours auto --inducing 20 --kernel matern32 {QUICK} --metrics j --model-out m"
    );
    let text = work.run(&auto).ok().stdout();
    // 96 of 120 rows are training rows, and 28 of these judge the choices.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("by the log loss of 28 held-out rows"), "{text}");
    let document = work.json("j");
    let parts = document["fit"]["choices"]["parts"].as_array().expect("parts");
    assert_eq!((parts.len(), parts[0]["part"].as_str()), (1, Some("neighbours")));
    let tried = parts[0]["tried"].as_array().expect("numbers of neighbours");
    assert_eq!(tried.len(), 4);
    let chosen = tried.iter().find(|one| one["chosen"] == true).expect("one of them");
    let none = chosen["value"] == "none" && document["config"]["neighbours"].is_null();
    let number = chosen["value"].as_str().and_then(|value| value.parse::<u64>().ok());
    assert!(none || number == document["config"]["neighbours"].as_u64(), "{document}");
    assert!(work.run("inspect m").ok().stdout().contains("by the log loss of 28 held-out rows"));

    let few =
        format!("fit data.csv --target y --neighbours 8 --keep-rows 60 --keep-single {QUICK} --model-out k");
    assert!(work.run(&few).ok().stdout().contains("inducing inputs, 8 neighbours"));
    let shown = work.run("inspect k").ok().stdout();
    assert!(shown.contains("8 nearest of 60 training rows, kept in single precision"), "{shown}");
    work.run("predict k data.csv --out p.csv").ok();
    assert_eq!(work.read("p.csv").lines().count(), 121);
    // The hyper-parameters of a model with neighbours can start a fit with another number of neighbours.
    let next =
        work.run("fit data.csv --target y --from k --hyper fixed --neighbours 20 --json --quiet").json();
    assert_eq!(next["config"]["neighbours"], 20);
    let further = "fit data.csv --target y --from k --neighbours auto";
    work.refuses(2, further, &[("", &["--neighbours auto", "--from"])]);
}
