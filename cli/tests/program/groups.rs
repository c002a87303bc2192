//! Grouped effects from the command line: estimates compared with statsmodels, predictions for levels and for the population.

use sparsegp_testkit::parquet::{self, Cells};
use sparsegp_testkit::program::{Work, assert_contains, number};

const GRUNFELD: &str = include_str!("../../../examples/data/grunfeld.csv");

fn work() -> Work {
    Work::with("grunfeld.csv", GRUNFELD)
}

fn close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got / want - 1.0).abs() < tolerance, "{what}: {got} instead of {want}");
}

const FIT: &str = "fit grunfeld.csv --target invest --features value,capital --model glm --group firm";

#[test]
fn a_linear_mixed_model_has_the_figures_of_statsmodels() {
    // MixedLM of statsmodels 0.14: log likelihood, standard deviations of firms and noise, coefficients and their standard errors.
    let cases = [
        (
            "",
            -1_194.449_896_019,
            [77.268_01, 50.062_18],
            [0.109_289_2, 0.307_977_3],
            [0.009_823_9, 0.016_308_9],
        ),
        (
            "--reml",
            -1_197.308_053_729,
            [82.108_64, 50.274_60],
            [0.109_352_1, 0.308_200_0],
            [0.009_990_1, 0.016_390_8],
        ),
    ];
    for (option, log_likelihood, sds, slopes, errors) in cases {
        let work = work();
        let document = work.run(&format!("{FIT} {option} --json --quiet")).json();
        close(number(&document, "/groups/log_likelihood"), log_likelihood, 1e-7, "log likelihood");
        close(number(&document, "/groups/components/0/sd"), sds[0], 1e-4, "sd of firms");
        close(number(&document, "/groups/residual_sd"), sds[1], 1e-4, "sd of noise");
        let share = sds[0].powi(2) / (sds[0].powi(2) + sds[1].powi(2));
        close(
            number(&document, "/groups/intraclass_correlations/firm"),
            share,
            1e-4,
            "intraclass correlation",
        );
        // The limits of REML intervals depend on the restricted likelihood; `tests/fits/grouped_intervals.rs` checks both kinds.
        for (at, value) in [
            ("components/0/interval", sds[0]),
            ("residual_interval", sds[1]),
            ("intraclass_intervals/firm", share),
        ] {
            let end = |index: usize| number(&document, &format!("/groups/{at}/{index}"));
            assert!(end(0) < value && value < end(1) && end(0) > 0.3 * value, "{at}: {} {}", end(0), end(1));
        }
        for (index, (slope, error)) in slopes.into_iter().zip(errors).enumerate() {
            let at = format!("/coefficients/{}", index + 1);
            close(number(&document, &format!("{at}/mean")), slope, 1e-4, "slope");
            // statsmodels computes standard errors under a flat prior of all fixed effects, as we do.
            close(number(&document, &format!("{at}/sd")), error, 2e-3, "standard error");
        }
    }
}

#[test]
fn a_model_with_groups_is_summarised_predicted_evaluated_and_listed() {
    let work = work();
    let text = work.run(&format!("{FIT} --model-out m --quiet")).ok().stdout();
    assert_contains(
        &text,
        &["firm, 11 levels; sd 77.27 (95 % ", "noise", "log likelihood", "flat (fixed effects)"],
    );
    let told = work.run("inspect m").ok().stdout();
    assert!(told.contains("firm, 11 levels; sd 77.27 (95 % "), "{told}");
    let figures = work.run("evaluate m grunfeld.csv").ok().stdout();
    assert!(figures.contains("RMSE"), "{figures}");
    let effects = work.run("effects m").ok().stdout();
    assert_eq!(effects.lines().next(), Some("group,level,effect,estimate,sd"));
    assert_eq!(effects.lines().count(), 12);
    assert!(effects.contains("firm,General Motors,intercept,"), "{effects}");
    work.run("effects m --out effects.csv").ok();
    assert_eq!(work.read("effects.csv"), effects);
    work.run("effects m --out effects.parquet").ok();
    work.run("fit effects.parquet --target estimate --features sd --model glm --quiet").ok();
    work.run("effects m --out effects.txt").fails(2, &["effects.txt", ".parquet"]);

    work.write("new.csv", "value,capital,firm\n1000,300,IBM\n1000,300,Acme\n");
    let run = work.run("predict m new.csv --out - --latent");
    assert!(run.stderr().contains("Acme"), "{}", run.stderr());
    let known = run.csv();
    let (mean, variance) = (known.numbers("mean"), known.numbers("latent_variance"));
    // The variance for a new firm is the variance of firms plus that of the fixed effects.
    assert!(variance[1] > variance[0] + 5000.0, "{known:?}");
    work.write("nobody.csv", "value,capital\n1000,300\n");
    let nobody = work.run("predict m nobody.csv --out - --latent --population").csv();
    assert!((nobody.numbers("mean")[0] / mean[1] - 1.0).abs() < 1e-12, "{nobody:?} {known:?}");
    assert!(nobody.numbers("latent_variance")[0] < variance[1] - 5000.0, "{nobody:?} {known:?}");
    let drawn = work.run("predict m nobody.csv --out - --draws 3 --population").csv();
    assert_eq!((drawn.column("mean"), drawn.names.len()), (nobody.column("mean"), 5), "{drawn:?}");
}

/// The effects of a level, a value of `t.csv` and `t.parquet`, do not depend on the type in which a file stores it.
#[test]
fn whole_numbers_dates_and_truth_values_are_the_same_levels_in_every_format() {
    let work = Work::empty();
    let (first_id, first_day) = (1_234_567_890_123_456_780i64, 19_779);
    let (id, y) = (|i: i64| first_id + i % 6, |i: i64| (i * i % 17) as f64);
    let rows = |format: &dyn Fn(i64) -> String| (0..60).map(format).collect::<String>();
    let of_csv = |i| format!("{},2024-02-{:02},{},{},{}\n", id(i), 26 + i % 4, i % 2 == 0, i % 7, y(i));
    work.write("t.csv", &("id,day,flag,x,y\n".to_owned() + &rows(&of_csv)));
    let cells = [
        Cells::Int64((0..60).map(|i| Some(id(i))).collect()),
        Cells::Int32((0..60).map(|i| Some(first_day + i % 4)).collect()),
        Cells::Boolean((0..60).map(|i| Some(i % 2 == 0)).collect()),
        Cells::Double((0..60).map(|i| Some((i % 7) as f64)).collect()),
        Cells::Double((0..60).map(|i| Some(y(i))).collect()),
    ];
    let fields = "optional int64 id; optional int32 day (DATE); optional boolean flag; optional double x; optional double y;";
    std::fs::write(work.path("t.parquet"), parquet::file(fields, &cells, (60, 37))).expect("written");
    for (group, levels) in [
        ("id", (0..6).map(|k| (first_id + k).to_string()).collect::<Vec<_>>()),
        ("day", ["2024-02-26", "2024-02-27", "2024-02-28", "2024-02-29"].map(str::to_owned).to_vec()),
        ("flag", ["false", "true"].map(str::to_owned).to_vec()),
    ] {
        let mut effects = Vec::new();
        for (file, other) in [("t.csv", "t.parquet"), ("t.parquet", "t.csv")] {
            let fit = format!("fit {file} --target y --features x --model glm --group {group}");
            work.run(&format!("{fit} --task regression --quiet --model-out m")).ok();
            effects.push(work.run("effects m").csv());
            let predicted = |file: &str| work.run(&format!("predict m {file} --out - --keep id")).ok();
            let (same, changed) = (predicted(file), predicted(other));
            assert_eq!(same.stdout(), changed.stdout(), "{group} of {file}");
            assert!(same.stdout().contains("1234567890123456785,") && !changed.stderr().contains("levels"));
        }
        assert_eq!(effects[0].rows, effects[1].rows, "{group}");
        assert_eq!(effects[0].column("level"), levels);
    }
}

#[test]
fn intervals_are_those_of_lme4() {
    // `confint` of lme4 1.1 profiles the likelihood: `confint(lmer(Yield ~ 1 + (1 | Batch), Dyestuff))` and
    // `confint(lmer(Reaction ~ Days + (Days | Subject), sleepstudy))` (Bates, Mächler, Bolker & Walker 2015, section 5.1). The data are no
    // part of this repository, but of the folder that SPARSEGP_REFERENCE_DIR names.
    let Ok(folder) = std::env::var("SPARSEGP_REFERENCE_DIR") else { return };
    let fit = "--target Reaction --features Days --group Days|Subject --model glm --json --quiet";
    let document = Work::empty().run(&format!("fit {folder}/mixed/sleepstudy.csv.gz {fit}")).json();
    for (at, ends) in [
        ("components/0/interval", [14.381, 37.716]),
        ("components/1/correlation_intervals/0", [-0.482, 0.685]),
        ("components/1/interval", [3.801, 8.753]),
        ("residual_interval", [22.898, 28.858]),
    ] {
        for (index, end) in ends.into_iter().enumerate() {
            close(number(&document, &format!("/groups/{at}/{index}")), end, 2e-3, at);
        }
    }
}

#[test]
fn bounds_on_the_likelihood_are_close_to_the_numbers_of_lme4() {
    // Data of lme4, which are no part of this repository, in the folder that SPARSEGP_REFERENCE_DIR names. VerbAgg: `glmer` with 15 nodes of
    // adaptive quadrature. grouseticks: Laplace's approximation. That is not a bound.
    let Ok(folder) = std::env::var("SPARSEGP_REFERENCE_DIR") else { return };
    let cases = [
        (
            "verbagg.csv.gz --target r2 --features btype --group id --likelihood bernoulli-logit",
            -4_349.546_37,
            vec![1.242_855_6],
            0.828_586_1,
        ),
        (
            "grouseticks.csv.gz --target TICKS --features YEAR,HEIGHT --categorical YEAR --group BROOD --group LOCATION --likelihood poisson",
            -987.938_16,
            vec![0.769_651_1, 0.574_136_9],
            11.35,
        ),
    ];
    for (options, log_likelihood, sds, intercept) in cases {
        let path = format!("{folder}/mixed/{options}");
        let document = Work::empty().run(&format!("fit {path} --model glm --json --quiet")).json();
        let bound = number(&document, "/groups/log_likelihood");
        assert!(bound < log_likelihood && bound > log_likelihood - 1.0, "{options}: {bound}");
        for (index, sd) in sds.iter().enumerate() {
            let got = number(&document, &format!("/groups/components/{index}/sd"));
            close(got, *sd, 0.02, options);
        }
        close(number(&document, "/coefficients/0/mean"), intercept, 0.01, options);
    }
}
