//! Options that are refused before any work, in one line, and leave no files. Each case is a line: the options, then the words that its
//! message must have, separated by bars.

use sparsegp_testkit::program::Work;

const FIT: &str = "
--objective best | best | elbo, dlm-log, dlm-square, vfe, fitc
--objectve vfe | --objectve | --objective
--beta x | --beta | 'x'
--kernel rbff | --kernel | rbff
--likelihood probit | probit | bernoulli-logit
--model lm | lm | gp, glm
--auto sometimes | sometimes
--task count --likelihood gaussian | gaussian | count
--objective vfe --batch-size 5 | --batch-size | no effect
--estimator bmc:10 | --estimator | dlm-log
--likelihood gaussian --quadrature-nodes 9 | --quadrature-nodes | gaussian
--betas 1,0 | 1,0
--betas 1 --beta 2 | --beta
--test data.csv --test-fraction 0.1 | --test
--test-fraction 0.2 --unseen new | --unseen has no effect without --test
--split-by colour --validation-fraction 0 | --split-by has no effect if no rows are held out
--patience 3 | --validation-fraction
--predictions p.csv | --test
--test-fraction 0.1 --predictions p.txt | p.txt | .csv or .parquet
--model-out m --metrics m |
--metrics data.csv | data.csv | input
--checkpoint data.csv | data.csv: is an input file
--checkpoint-every 3 | --checkpoint-every has no effect without --checkpoint
--from m --kernel rbf | --kernel | --from
--from m --restarts 2 | --restarts | --from
--inducing many | many | auto
--inducing 10 --max-inducing 20 | --max-inducing | --inducing auto
--keep-rows 5 | --neighbours
--neighbours some | auto | number
--neighbours auto --restarts 2 | --restarts
--neighbours auto --hyper joint | closed form
--hyper dual --hyper-optimizer lbfgs | --hyper-optimizer lbfgs | --hyper alternating
--hyper joint --hyper-optimizer lbfgs --q-step const:0.5 | --q-step | --hyper-optimizer adam
--hyper dual --objective dlm-log | --hyper dual | --objective elbo
--hyper alternating --q-step const:0.1 | --q-step | --hyper alternating
--hyper collapsed --likelihood poisson --task count | --hyper collapsed | poisson
--hyper collapsed --batch-size 64 | --batch-size | --hyper collapsed
--shuffle-buffer 0 | --shuffle-buffer is 0
--shuffle-buffer 10 --objective vfe | --objective vfe needs all rows in memory
--shuffle-buffer 10 --test-fraction 0.6 --validation-fraction 0.5 | leave no rows to train on
--max-steps 5 --objective vfe | --max-steps is for
--warp-target log --likelihood student-t | --warp-target log needs the gaussian
--warp-inputs normal-scores --no-standardize | --warp-inputs
--places a | expected two columns
--places a,b --plane a,b | cannot be used with
--ordered colour | 'size=S<M<L'
--ordered colour=red<red | --ordered colour | 'red' twice
--ordered y=1<2 | 'y' | both ordered and target
--start nothing=1 | no hyper-parameter 'nothing' | hint: the names are kernel.variance, kernel.lengthscales.0 to .2
--start kernel.variance=-1 | --start | outside the range | above 0
--start kernel.variance=3 --fix kernel.variance | is fixed | no effect
--prior mean.constant=gamma(1,1) | may be negative | normal(mean,sd)
--tie kernel.variance,likelihood.noise_variance | different ranges | --bounds
--bounds kernel.variance=2,1 | has a LO that is not below HI
--cv 121 | --cv 121
--cv 5 --test-fraction 0.2 | --test-fraction
--cv 7 --split-by colour | --cv 7
--test-fraction 0.2 --against=--reml | --against has no effect without --cv
--cv 3 --against=--seed=4 | --seed is the same for all fits
--cv 3 --against=--kernel=rbff | rbff
--mixing 1 | --mixing is for several targets
--q-nonnegative | --q-nonnegative | --model gp | --model glm
--group colour --neighbours auto | --neighbours auto
--group colour --reml | --reml
--group colour --auto kernel | --auto
--group colour --group colour | given twice
--target b | --target
";

const LINEAR: &str = "
--kernel rbf | --kernel | --model gp | --model glm
--inducing 5 | --inducing | --model gp | --model glm
--objective fitc | fitc | glm | vfe
--default-priors off | --default-priors
--places a,b | --places | Gaussian processes
--family banded | banded | full, diagonal
--q-bounds 2,1 | --q-bounds | smaller
--q-bounds 0.1,10 | --q-bounds | projected-ngvi
--q-nonnegative --q-update projected-ngvi | --q-nonnegative | diagonal
--q-smoothness 3 --q-update prox-sgd --q-step const:0.1 | --q-smoothness | --q-step | absolute
--q-update adam --q-guard trust | --q-guard | ngd | adam
--q-step const:7 | const:7 | ngd
--q-step sometimes | sometimes | two-over-t | invsqrt
--batch-schedule power:0.5 --batch-size 3 | --batch-schedule | --batch-size
--sample-schedule const:3 | --sample-schedule | price:L
--estimator reparam:2 --q-update adam | reparam:2 | adam | reparam-ent:L or stl:L
--estimator price:2 --objective dlm-log | price:2 | elbo
--objective vfe --q-average tail | --q-average | vfe
--objective dlm-square --q-update ngd | --q-update | dlm-square
";

const COMMANDS: &str = "
nonsense | nonsense
fit data.csv | --target
fit data.csv --target y,y | 'y' twice
fit data.csv --target a,y --mixing 3 | mixed:3 | 2
fit data.csv --target a,colour --mixing 1 | --outputs | 'colour'
fit data.csv --target colour --objective vfe | vfe | needs the gaussian likelihood
fit - --target y --shuffle-buffer 10 | standard input cannot be read again
compare data.csv --target y --objectives elbo | --out
compare data.csv --target y --out o --objectives elbo,elbo | elbo twice
compare data.csv --target y --out o --objectives beta-elbo | beta-elbo | --betas
compare data.csv --target y --out o --objectives fitc --batch-size 8 | --batch-size | vfe and fitc
compare data.csv --target y --out o --objectives elbo --restarts 2 | --restarts
compare - --target y --out o --objectives elbo | standard input
predict model data.csv --out p.csv --quantiles 1.5 | 1.5
predict model data.csv --out p.csv --quantiles 0.5,0.5 | twice
predict model data.csv --out p.json | p.json
predict model data.csv --out p.nc | p.nc: NetCDF and GeoTIFF | expected --grid
predict model data.csv --out p.csv --average 3 | --grid
predict model --out p.csv --grid a=1:5 | expected NAME=START:STOP:STEP
update model data.csv | --model-out
update model data.csv --model-out n --forget 1.5 | --forget is 1.5
explain model data.csv --csv-safe | --out
demo co2 | 'co2' | demo --list
demo co2_weekly --list | cannot be used with
";

/// Complete commands that fail because of their files.
const FILES: &str = "
fit absent.csv --target y --shuffle-buffer 10 | absent.csv: cannot be read
fit . --target y --shuffle-buffer 10 | is a folder
fit data.csv --target z | no column named 'z'
fit data.csv --target y --weights z | no column named 'z'
fit data.csv --target y --group country | country
fit data.csv --target y --ordered none=S<M | 'none'
fit data.csv --target y --places a,colour | colour
fit data.csv --target y --resume absent | absent: cannot be read
fit data.csv --target y --resume data.csv | data.csv: not a checkpoint
fit data.csv --target y --checkpoint no/such/c | no/such/c: cannot be written
fit data.csv --target y --model-out no/such/m | no/such/m | cannot be written
fit data.csv --target y --metrics no/such/m | no/such/m | cannot be written
fit data.csv --target y --report no/such/r.html | no/such/r.html | cannot be written
fit data.csv --target y --test-fraction 0.1 --predictions no/p.csv | no/p.csv
fit data.csv --target y --test absent.csv | absent.csv
fit absent.csv --target y | absent.csv
compare absent.csv --target y --objectives elbo --out o | absent.csv
compare data.csv --target z --objectives elbo --out o | 'z'
compare data.csv --target y --objectives elbo --out o --test-fraction 0.99 | fewer than 2
compare data.csv --target y --objectives elbo --out data.csv | data.csv | cannot be created
inspect data.csv | data.csv
";

#[test]
fn refusals_name_the_option_or_the_file() {
    let work = Work::modelled();
    let fit = "fit data.csv --target y --quiet";
    let linear = &format!("{fit} --model glm");
    for (code, command, cases) in [(2, fit, FIT), (2, linear, LINEAR), (2, "", COMMANDS), (3, "", FILES)] {
        for case in cases.lines().filter(|line| !line.is_empty()) {
            let (options, words) = case.split_once(" |").expect("a bar after the options");
            let words: Vec<&str> = words.split('|').map(str::trim).collect();
            work.refuses(code, command, &[(options, &words)]);
        }
    }
}
