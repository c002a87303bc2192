//! Absurd values of every numeric option of every command. Each command ends quickly, with a one-line error or a result.

use sparsegp_testkit::program::{QUICK, Work, quick};

/// Absurd whole numbers: too large for their type or for memory, zero, and negative.
const WHOLE: [&str; 4] = ["18446744073709551615", "99999999999", "0", "-1"];

const REAL: [&str; 5] = ["nan", "inf", "-inf", "1e308", "-1"];

/// Commands in which `VALUE` is replaced by each value.
struct Case {
    arguments: &'static str,
    values: &'static [&'static str],
}

const fn whole(arguments: &'static str) -> Case {
    Case { arguments, values: &WHOLE }
}

const fn real(arguments: &'static str) -> Case {
    Case { arguments, values: &REAL }
}

const FIT: &str = "fit data.csv --target y --quiet";

/// Options of `fit`, which are appended to a command that is otherwise quick.
const FITS: [Case; 47] = [
    whole("--threads=VALUE"),
    whole("--quadrature-nodes=VALUE --likelihood student-t"),
    whole("--max-steps=VALUE --hyper joint"),
    whole("--batch-size=VALUE --objective dlm-log"),
    whole("--warm-start=VALUE --objective dlm-log --hyper joint --max-seconds 1"),
    whole("--seed=VALUE"),
    whole("--restarts=VALUE"),
    whole("--mixing=VALUE"),
    whole("--shuffle-buffer=VALUE"),
    whole("--patience=VALUE --validation-fraction 0.2"),
    whole("--inducing=VALUE"),
    whole("--inducing=VALUE --objective vfe"),
    whole("--inducing auto --max-inducing=VALUE"),
    whole("--epochs=VALUE --max-seconds 0.2"),
    whole("--neighbours=VALUE"),
    whole("--neighbours 5 --keep-rows=VALUE"),
    whole("--batch-schedule=const:VALUE --objective dlm-log"),
    whole("--batch-schedule=max:VALUE:2 --objective dlm-log"),
    whole("--estimator=bmc:VALUE --objective dlm-log"),
    whole("--estimator=smooth-bmc:VALUE:0.1 --objective dlm-log"),
    whole("--estimator=ups:VALUE --objective dlm-log"),
    whole("--estimator=price:VALUE --max-steps 3"),
    whole("--estimator=reparam:VALUE --max-steps 3"),
    whole("--estimator=stl:VALUE --max-steps 3"),
    whole("--estimator=piecewise:VALUE --likelihood bernoulli-logit"),
    whole("--sample-schedule=const:VALUE --estimator price:2 --max-steps 3"),
    real("--sample-schedule=power:VALUE --estimator price:2 --max-steps 3"),
    real("--beta=VALUE"),
    real("--betas=VALUE"),
    real("--jitter=VALUE"),
    real("--learning-rate=VALUE --objective dlm-log"),
    real("--max-seconds=VALUE"),
    real("--tolerance=VALUE"),
    real("--stop-at=VALUE"),
    real("--test-fraction=VALUE"),
    real("--validation-fraction=VALUE"),
    real("--checkpoint-every=VALUE --checkpoint c"),
    real("--inducing auto --inducing-tolerance=VALUE"),
    real("--q-step=const:VALUE --objective dlm-log"),
    real("--q-step=half-t:VALUE --objective dlm-log"),
    real("--q-bounds=VALUE,VALUE --q-update projected-ngvi --objective dlm-log"),
    real("--fix=likelihood.noise_variance=VALUE"),
    real("--fix=*.lengthscales=VALUE"),
    real("--bounds=*.lengthscales=VALUE,VALUE"),
    real("--prior=*.lengthscales=lognormal(VALUE,VALUE)"),
    real("--prior=*.lengthscales=gamma(VALUE,1)"),
    real("--prior=*.lengthscales=halfcauchy(VALUE)"),
];

const OTHERS: [Case; 18] = [
    real("fit data.csv --target y --quiet --model glm --epochs 3 --prior-mean=VALUE"),
    real("fit data.csv --target y --quiet --model glm --epochs 3 --prior-variance=VALUE"),
    whole("fit targets.csv --target y1,y2 --quiet --inducing 5 --epochs 2 --mixing=VALUE"),
    whole("fit targets.csv --target y1,y2 --quiet --inducing 5 --epochs 2 --outputs=mixed:VALUE"),
    whole("predict model data.csv --out p.csv --samples=VALUE"),
    whole("predict model data.csv --out p.csv --draws=VALUE"),
    whole("predict model data.csv --out p.csv --draws 1 --seed=VALUE"),
    real("predict model data.csv --out p.csv --quantiles=VALUE"),
    whole("explain model data.csv --orders=VALUE"),
    whole("explain model data.csv --orders 3 --columns=VALUE"),
    whole("explain model data.csv --orders 3 --seed=VALUE"),
    whole("explain model data.csv --orders 3 --rows=VALUE"),
    whole("explain model data.csv --orders 3 --rows=1-VALUE"),
    real("update model data.csv --model-out u --forget=VALUE"),
    whole(
        "compare data.csv --target y --out cVALUE --quiet --inducing 5 --epochs 1 --max-seconds 1 --train-sizes 20 --repeats=VALUE",
    ),
    whole(
        "compare data.csv --target y --out tVALUE --quiet --inducing 5 --epochs 1 --max-seconds 1 --train-sizes=VALUE",
    ),
    whole(
        "compare data.csv --target y --out hVALUE --quiet --inducing 5 --epochs 1 --max-seconds 1 --train-sizes 20 --threads=VALUE",
    ),
    real(
        "compare data.csv --target y --out fVALUE --quiet --inducing 5 --epochs 1 --max-seconds 1 --train-sizes 20 --test-fraction=VALUE",
    ),
];

#[test]
fn absurd_values_are_refused_or_work() {
    let work = Work::empty();
    work.write("data.csv", &sparsegp_testkit::program::table(60));
    work.write("targets.csv", &sparsegp_testkit::outputs::table(60));
    work.run(&format!("{FIT} --model-out model {QUICK}")).ok();
    let fits = FITS.iter().flat_map(|case| {
        let base = format!("{FIT} {} ", quick(&case.arguments.replace('=', " ")));
        case.values.iter().map(move |value| base.clone() + &case.arguments.replace("VALUE", value))
    });
    let others =
        OTHERS.iter().flat_map(|case| case.values.iter().map(|value| case.arguments.replace("VALUE", value)));
    let mut refused = 0;
    for arguments in fits.chain(others) {
        let run = work.run(&arguments);
        let said = run.stderr();
        let errors = said
            .lines()
            .filter(|line| !["warning: ", "note: ", "hint: "].iter().any(|start| line.starts_with(start)));
        let lines = errors.count();
        let ends_well = match run.code() {
            0 => true,
            2..=4 => lines == 1 && said.lines().any(|line| line.starts_with("error: ")),
            _ => false,
        };
        assert!(ends_well && !said.contains("defect"), "{arguments}: {} {said}", run.code());
        refused += usize::from(run.code() != 0);
    }
    assert!(refused > 150, "{refused}");
}
