//! Grouped effects from the command line: estimates compared with statsmodels and lme4, and tables of effects.

use serde_json::Value;
use sparsegp_testkit::parquet::{self, Cells};
use sparsegp_testkit::program::{Work, number};

const FIT: &str = "grunfeld.csv --target invest --features value,capital --group firm";

fn work() -> Work {
    let work = Work::with("grunfeld.csv", include_str!("../../../examples/data/grunfeld.csv"));
    work.write("storms.csv", include_str!("../../../examples/data/storms.csv"));
    work.write("doctor_visits.csv", include_str!("../../../examples/data/doctor_visits.csv"));
    work
}

/// Fits a linear model, and checks numbers of its metrics document, each within a relative tolerance.
fn check(fit: &str, wanted: &[(&str, f64, f64)]) -> Value {
    let document = work().run(&format!("fit {fit} --model glm --json --quiet")).json();
    for (place, want, tolerance) in wanted {
        let got = number(&document, place);
        assert!((got / want - 1.0).abs() < *tolerance, "{fit}, {place}: {got} instead of {want}");
    }
    document
}

#[test]
fn a_linear_mixed_model_has_the_figures_of_statsmodels() {
    // MixedLM of statsmodels 0.14: log likelihood, standard deviations of firms and noise, coefficients and their standard errors.
    // statsmodels computes standard errors under a flat prior of all fixed effects, as we do.
    for (option, [log_likelihood, firms, noise, slope, error, other_slope, other_error]) in [
        ("", [-1_194.449_896_019, 77.268_01, 50.062_18, 0.109_289_2, 0.009_823_9, 0.307_977_3, 0.016_308_9]),
        (
            "--reml",
            [-1_197.308_053_729, 82.108_64, 50.274_60, 0.109_352_1, 0.009_990_1, 0.308_200_0, 0.016_390_8],
        ),
    ] {
        let share = firms * firms / (firms * firms + noise * noise);
        let wanted = [
            ("/groups/log_likelihood", log_likelihood, 1e-7),
            ("/groups/components/0/sd", firms, 1e-4),
            ("/groups/residual_sd", noise, 1e-4),
            ("/groups/intraclass_correlations/firm", share, 1e-4),
            ("/coefficients/1/mean", slope, 1e-4),
            ("/coefficients/1/sd", error, 2e-3),
            ("/coefficients/2/mean", other_slope, 1e-4),
            ("/coefficients/2/sd", other_error, 2e-3),
        ];
        let document = check(&format!("{FIT} {option}"), &wanted);
        // The limits of REML intervals depend on the restricted likelihood; `tests/fits/grouped_intervals.rs` checks both kinds.
        for (at, value) in [
            ("components/0/interval", firms),
            ("residual_interval", noise),
            ("intraclass_intervals/firm", share),
        ] {
            let [low, high] = [0, 1].map(|end| number(&document, &format!("/groups/{at}/{end}")));
            assert!(low < value && value < high && low > 0.3 * value, "{at}: {low} {high}");
        }
    }
}

/// The chapter on groups shows the effects, and predictions for known and new levels and for the population.
#[test]
fn effects_are_written_in_every_format_and_the_population_needs_no_levels() {
    let work = work();
    work.run(&format!("fit {FIT} --model glm --model-out m --quiet")).ok();
    let effects = work.text("effects m");
    assert_eq!(
        (effects.lines().next(), effects.lines().count()),
        (Some("group,level,effect,estimate,sd"), 12)
    );
    work.run("effects m --out effects.csv").ok();
    assert_eq!(work.read("effects.csv"), effects);
    work.run("effects m --out effects.parquet").ok();
    work.run("fit effects.parquet --target estimate --features sd --model glm --quiet").ok();
    work.run("effects m --out effects.txt").fails(2, &["effects.txt", ".parquet"]);
    work.write("nobody.csv", "value,capital\n1000,300\n");
    let [shown, drawn] = ["--latent", "--draws 3"]
        .map(|options| work.run(&format!("predict m nobody.csv --out - --population {options}")).csv());
    assert_eq!((drawn.column("mean"), drawn.names.len()), (shown.column("mean"), 5), "{drawn:?}");
}

/// The effects of a level, a value of `t.csv` and `t.parquet`, do not depend on the type in which a file stores it.
#[test]
fn whole_numbers_dates_and_truth_values_are_the_same_levels_in_every_format() {
    let work = Work::empty();
    let (first_id, first_day) = (1_234_567_890_123_456_780i64, 19_779);
    let (id, y) = (|i: i64| first_id + i % 6, |i: i64| (i * i % 17) as f64);
    let of_csv = |i| format!("{},2024-02-{:02},{},{},{}\n", id(i), 26 + i % 4, i % 2 == 0, i % 7, y(i));
    work.write("t.csv", "id,day,flag,x,y\n".to_owned() + &(0..60).map(of_csv).collect::<String>());
    let cells = [
        Cells::Int64((0..60).map(|i| Some(id(i))).collect()),
        Cells::Int32((0..60).map(|i| Some(first_day + i % 4)).collect()),
        Cells::Boolean((0..60).map(|i| Some(i % 2 == 0)).collect()),
        Cells::Double((0..60).map(|i| Some((i % 7) as f64)).collect()),
        Cells::Double((0..60).map(|i| Some(y(i))).collect()),
    ];
    let fields = "optional int64 id; optional int32 day (DATE); optional boolean flag; optional double x; optional double y;";
    work.write("t.parquet", parquet::file(fields, &cells, (60, 37)));
    for (group, levels) in [
        ("id", (0..6).map(|k| (first_id + k).to_string()).collect::<Vec<_>>()),
        ("day", (26..30).map(|day| format!("2024-02-{day}")).collect()),
        ("flag", vec!["false".to_owned(), "true".to_owned()]),
    ] {
        let effects = [("t.csv", "t.parquet"), ("t.parquet", "t.csv")].map(|(file, other)| {
            let fit = format!("fit {file} --target y --features x --model glm --group {group}");
            work.run(&format!("{fit} --task regression --quiet --model-out m")).ok();
            let [same, changed] =
                [file, other].map(|file| work.run(&format!("predict m {file} --out - --keep id")).ok());
            assert_eq!(same.stdout(), changed.stdout(), "{group} of {file}");
            assert!(same.stdout().contains("1234567890123456785,") && !changed.stderr().contains("levels"));
            work.run("effects m").csv()
        });
        assert_eq!(effects[0].rows, effects[1].rows, "{group}");
        assert_eq!(effects[0].column("level"), levels);
    }
}

/// Numbers of lme4 1.1.31 on tables of this repository; the R command stands above each.
#[test]
fn intervals_and_bounds_are_close_to_the_numbers_of_lme4() {
    // `confint(lmer(wind ~ lat + (lat | storm), REML = FALSE))` profiles the likelihood, as we do. The optimizer is bobyqa with
    // rhobeg 0.05 and rhoend 1e-9: the default one stops where the last limit of `lat` is 2e-3 lower.
    let intervals = [
        ("/groups/log_likelihood", -11_082.573_4, 1e-8),
        ("/groups/components/0/interval/0", 22.028_356, 2e-5),
        ("/groups/components/0/interval/1", 30.333_254, 2e-5),
        ("/groups/components/1/correlation_intervals/0/0", -0.900_973, 2e-5),
        ("/groups/components/1/correlation_intervals/0/1", -0.773_943, 2e-5),
        ("/groups/components/1/interval/0", 0.568_907, 2e-5),
        ("/groups/components/1/interval/1", 0.866_329, 2e-5),
        ("/groups/residual_interval/0", 17.744_195, 2e-5),
        ("/groups/residual_interval/1", 18.811_672, 2e-5),
    ];
    check("storms.csv --target wind --features lat --group lat|storm", &intervals);
    // `glmer(idp ~ lpi + (1 | disea), binomial, nAGQ = 15)` integrates with 15 nodes, so its likelihood is above our bound.
    // `glmer(visits ~ idp + physlm + (1 | disea) + (1 | lpi), poisson)` has Laplace's approximation, which is not a bound.
    for (options, log_likelihood, gap, wanted) in [
        (
            "--target idp --features lpi --group disea --likelihood bernoulli-logit",
            -2_846.649_05,
            0.01,
            &[("/groups/components/0/sd", 0.246_725_2, 1e-3), ("/coefficients/1/mean", 0.096_158_8, 1e-3)][..],
        ),
        (
            "--target visits --features idp,physlm --group disea --group lpi --likelihood poisson",
            -14_090.457_3,
            1.5,
            &[
                ("/groups/components/0/sd", 0.443_385_7, 0.02),
                ("/groups/components/1/sd", 0.879_575_3, 0.01),
                ("/coefficients/1/mean", -0.317_650_8, 1e-3),
                ("/coefficients/2/mean", 0.366_128_9, 1e-3),
            ],
        ),
    ] {
        let document = check(&format!("doctor_visits.csv {options}"), wanted);
        let bound = number(&document, "/groups/log_likelihood");
        assert!(bound < log_likelihood && bound > log_likelihood - gap, "{options}: {bound}");
    }
}
