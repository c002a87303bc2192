//! `--inducing auto` and `--restarts` from the command line: messages, documents, saved models and errors.

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
fn too_few_inducing_inputs_cause_a_warning_with_the_remaining_gap() {
    let work = Work::new();
    let run = work.run(&format!(
        "fit data.csv --target y --objective vfe --inducing auto --inducing-tolerance 1e-9 --max-inducing 33 --kernel matern12 {QUICK}"
    ));
    let warning = run.ok().stderr();
    assert_contains(
        &warning,
        &["33 inducing inputs, the most allowed", "nats per row apart", "gained", "--max-inducing"],
    );
}

#[test]
fn a_grid_of_beta_grows_once_and_compare_grows_for_every_fit_from_scratch() {
    let work = Work::new();
    let document = work.run(&format!(
        "fit data.csv --target y --betas 0.5,1 --inducing auto --inducing-tolerance 0.2 --max-inducing 40 --json {QUICK}"
    ));
    let document = document.json();
    assert!(document["fit"]["beta_curve"].is_object());
    let m = document["fit"]["inducing_certificate"]["chosen"].as_u64().expect("a number");
    assert_eq!(document["config"]["inducing"].as_u64(), Some(m));
    work.run(
        "compare data.csv --target y --objectives elbo,vfe,dlm-log --inducing auto --max-inducing 40 --epochs 2 --out c --quiet",
    )
    .ok();
    assert_eq!(work.read("c/results.csv").lines().count(), 4);
}

#[test]
fn restarts_are_in_messages_documents_and_models() {
    let work = Work::new();
    let text = work
        .run(&format!("fit data.csv --target y --objective vfe --inducing 10 --restarts 3 {QUICK} --metrics j --model-out m"))
        .ok()
        .stdout();
    assert!(text.contains("of 0 to 2, by first scores"), "{text}");
    let restarts = work.json("j")["fit"]["restarts"].as_array().expect("restarts").clone();
    assert_eq!(restarts.len(), 3);
    assert_eq!(restarts.iter().filter(|restart| restart["chosen"] == true).count(), 1);
    for (number, restart) in restarts.iter().enumerate() {
        assert_eq!(
            (restart["start"].as_u64(), restart["seed"].as_u64()),
            (Some(number as u64), Some(number as u64))
        );
        assert!(restart["scores"][0].is_number(), "{restart}");
    }
    assert!(work.run("inspect m").ok().stdout().contains("by first scores"));
    let plain =
        work.run(&format!("fit data.csv --target y --objective vfe --inducing 10 {QUICK} --json")).json();
    assert!(plain["fit"]["restarts"].is_null() && plain["fit"]["inducing_curve"].is_null());
    assert!(plain["fit"]["inducing_certificate"].is_null());
}

/// Returns the progress lines of a fit with these options, without epochs and warnings.
fn stages(options: &str) -> Vec<String> {
    let work = Work::new();
    let fit = format!("fit data.csv --target y --tolerance 0 --epochs 30 --metrics j {options}");
    let text = work.run(&fit).ok().stderr();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(lines.len() <= 24, "{text}");
    lines.retain(|line| !line.starts_with("epoch ") && !line.starts_with("warning: "));
    assert_eq!(lines.remove(0), "fit starts: data.csv", "{text}");
    assert!(lines.pop().is_some_and(|line| line.starts_with("fit ends: data.csv")), "{text}");
    // Sizes that were tried but not chosen count too.
    let document = work.json("j");
    if let Some(curve) = document["fit"]["inducing_curve"].as_array() {
        for point in curve {
            let size = format!("inducing inputs: {} of at most ", point["m"]);
            assert!(lines.iter().any(|line| line.starts_with(&size)), "{size} in {text}");
        }
    }
    lines
}

#[test]
fn progress_names_and_numbers_every_start_size_and_beta() {
    let restarts = stages("--objective vfe --inducing 10 --restarts 3");
    assert_eq!(restarts.len(), 5, "{restarts:?}");
    for (index, line) in restarts[..3].iter().enumerate() {
        assert_eq!(*line, format!("restarts: start {index}, {} of 3 in round 1 of 2", index + 1));
    }
    assert!(restarts[3].contains(", 1 of 2 in round 2 of 2") && restarts[4].contains(", 2 of 2 in round 2"));

    let growth = "--inducing auto --inducing-tolerance 0.01 --max-inducing 80 --kernel matern32";
    let sizes = stages(&format!("--objective vfe {growth}"));
    assert!(sizes.len() >= 2 && sizes[0] == "inducing inputs: 32 of at most 80", "{sizes:?}");

    let betas = stages("--objective elbo --hyper joint --inducing 10 --betas 0.1,1,10");
    assert_eq!(betas.len(), 4, "{betas:?}");
    assert_eq!(betas[0], "β = 1, 1 of 3", "the one nearest to 1 comes first");
    assert!(betas[1].ends_with(", 2 of 3") && betas[2].ends_with(", 3 of 3"), "{betas:?}");
    assert!(betas[3].ends_with(" is best: the fit to all training rows"), "{betas:?}");

    let quiet = Work::new();
    let run = quiet.run(&format!("fit data.csv --target y --restarts 2 --inducing 10 {QUICK}")).ok();
    assert!(run.stderr().lines().all(|line| line.starts_with("warning: ")), "{}", run.stderr());
}

#[test]
fn options_without_an_effect_are_refused() {
    let work = Work::new();
    let cases: [(&str, &[&str]); 9] = [
        ("--inducing many", &["many", "auto"]),
        ("--inducing 10 --max-inducing 20", &["--max-inducing", "--inducing auto"]),
        ("--inducing-tolerance 0.1", &["--inducing"]),
        ("--inducing auto --from m", &["--inducing", "--from"]),
        ("--restarts 2 --from m", &["--restarts", "--from"]),
        ("--keep-rows 5", &["--neighbours"]),
        ("--neighbours some", &["auto", "number"]),
        ("--neighbours 5 --shuffle-buffer 50", &["--neighbours", "memory"]),
        ("--model glm --neighbours 5", &["--neighbours", "--model"]),
    ];
    work.refuses(2, "fit data.csv --target y", &cases);
    work.refuses(
        2,
        "compare data.csv --target y --objectives elbo --out c",
        &[("--restarts 2", &["--restarts"])],
    );
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
