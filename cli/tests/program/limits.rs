//! Absurd values of every numeric option of every command. Each command ends quickly, with a one-line error or a result.

use sparsegp_testkit::program::{Work, quick, table};

/// Absurd whole numbers: too large for their type or for memory, zero, and negative.
const WHOLE: [&str; 4] = ["18446744073709551615", "99999999999", "0", "-1"];

const REAL: [&str; 5] = ["nan", "inf", "-inf", "1e308", "-1"];

/// Options of `fit` and complete commands. `VALUE` stands for an absurd value, and `BRIEF` for options of very short fits.
const WHOLE_COMMANDS: [&str; 39] = [
    "--threads=VALUE",
    "--quadrature-nodes=VALUE --likelihood student-t",
    "--max-steps=VALUE --hyper joint",
    "--batch-size=VALUE --objective dlm-log",
    "--warm-start=VALUE --objective dlm-log --hyper joint --max-seconds 1",
    "--seed=VALUE",
    "--restarts=VALUE",
    "--mixing=VALUE",
    "--shuffle-buffer=VALUE",
    "--patience=VALUE --validation-fraction 0.2",
    "--inducing=VALUE",
    "--inducing=VALUE --objective vfe",
    "--inducing auto --max-inducing=VALUE",
    "--epochs=VALUE --max-seconds 0.2",
    "--neighbours=VALUE",
    "--neighbours 5 --keep-rows=VALUE",
    "--batch-schedule=const:VALUE --objective dlm-log",
    "--batch-schedule=max:VALUE:2 --objective dlm-log",
    "--estimator=bmc:VALUE --objective dlm-log",
    "--estimator=smooth-bmc:VALUE:0.1 --objective dlm-log",
    "--estimator=ups:VALUE --objective dlm-log",
    "--estimator=price:VALUE --max-steps 3",
    "--estimator=reparam:VALUE --max-steps 3",
    "--estimator=stl:VALUE --max-steps 3",
    "--estimator=piecewise:VALUE --likelihood bernoulli-logit",
    "--sample-schedule=const:VALUE --estimator price:2 --max-steps 3",
    "fit targets.csv --target y1,y2 --quiet --inducing 5 --epochs 2 --mixing=VALUE",
    "fit targets.csv --target y1,y2 --quiet --inducing 5 --epochs 2 --outputs=mixed:VALUE",
    "predict model data.csv --out p.csv --samples=VALUE",
    "predict model data.csv --out p.csv --draws=VALUE",
    "predict model data.csv --out p.csv --draws 1 --seed=VALUE",
    "explain model data.csv --orders=VALUE",
    "explain model data.csv --orders 3 --columns=VALUE",
    "explain model data.csv --orders 3 --seed=VALUE",
    "explain model data.csv --orders 3 --rows=VALUE",
    "explain model data.csv --orders 3 --rows=1-VALUE",
    "compare data.csv --target y --out cVALUE --quiet BRIEF --train-sizes 20 --repeats=VALUE",
    "compare data.csv --target y --out tVALUE --quiet BRIEF --train-sizes=VALUE",
    "compare data.csv --target y --out hVALUE --quiet BRIEF --train-sizes 20 --threads=VALUE",
];

const REAL_COMMANDS: [&str; 26] = [
    "--sample-schedule=power:VALUE --estimator price:2 --max-steps 3",
    "--beta=VALUE",
    "--betas=VALUE",
    "--jitter=VALUE",
    "--learning-rate=VALUE --objective dlm-log",
    "--max-seconds=VALUE",
    "--tolerance=VALUE",
    "--stop-at=VALUE",
    "--test-fraction=VALUE",
    "--validation-fraction=VALUE",
    "--checkpoint-every=VALUE --checkpoint c",
    "--inducing auto --inducing-tolerance=VALUE",
    "--q-step=const:VALUE --objective dlm-log",
    "--q-step=half-t:VALUE --objective dlm-log",
    "--q-bounds=VALUE,VALUE --q-update projected-ngvi --objective dlm-log",
    "--fix=likelihood.noise_variance=VALUE",
    "--fix=*.lengthscales=VALUE",
    "--bounds=*.lengthscales=VALUE,VALUE",
    "--prior=*.lengthscales=lognormal(VALUE,VALUE)",
    "--prior=*.lengthscales=gamma(VALUE,1)",
    "--prior=*.lengthscales=halfcauchy(VALUE)",
    "fit data.csv --target y --quiet --model glm --epochs 3 --prior-mean=VALUE",
    "fit data.csv --target y --quiet --model glm --epochs 3 --prior-variance=VALUE",
    "predict model data.csv --out p.csv --quantiles=VALUE",
    "update model data.csv --model-out u --forget=VALUE",
    "compare data.csv --target y --out fVALUE --quiet BRIEF --train-sizes 20 --test-fraction=VALUE",
];

#[test]
fn absurd_values_are_refused_or_work() {
    let work = Work::with("data.csv", table(60));
    work.write("targets.csv", sparsegp_testkit::outputs::table(60));
    work.quick_fit("data.csv --target y --model-out model");
    let complete = |command: &str| match command.starts_with("--") {
        true => format!("fit data.csv --target y --quiet {} {command}", quick(&command.replace('=', " "))),
        false => command.replace("BRIEF", "--inducing 5 --epochs 1 --max-seconds 1"),
    };
    let whole = WHOLE.iter().flat_map(|value| WHOLE_COMMANDS.map(|command| (command, *value)));
    let real = REAL.iter().flat_map(|value| REAL_COMMANDS.map(|command| (command, *value)));
    let mut refused = 0;
    for (command, value) in whole.chain(real) {
        let arguments = complete(command).replace("VALUE", value);
        let run = work.run(&arguments);
        let said = run.stderr();
        let others = ["warning: ", "note: ", "hint: "];
        let errors: Vec<&str> =
            said.lines().filter(|line| !others.iter().any(|start| line.starts_with(start))).collect();
        let ends_well = match run.code() {
            0 => true,
            2..=4 => errors.len() == 1 && errors[0].starts_with("error: "),
            _ => false,
        };
        assert!(ends_well && !said.contains("defect"), "{arguments}: {} {said}", run.code());
        refused += usize::from(run.code() != 0);
    }
    assert!(refused > 150, "{refused}");
}
