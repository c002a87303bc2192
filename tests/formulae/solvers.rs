//! Our solvers against argmin: the iterates of L-BFGS are equal bit for bit, and Adam is the same
//! under argmin's executor.

use argmin::core::{CostFunction, Error, Gradient, IterState, Problem, Solver, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::hyper::*;

/// Smooth functions of any number of dimensions.
#[derive(Clone)]
enum Function {
    /// Rosenbrock's, chained.
    Valley,
    /// `Σ log cosh(aᵢᵀx − bᵢ) + ½ Σ cⱼ xⱼ²`, with rows `(a, b)`.
    Waves(Vec<(Vec<f64>, f64)>, Vec<f64>),
    /// `½ Σ cⱼ (xⱼ − 1)²`.
    Bowl(Vec<f64>),
}

impl Function {
    fn waves(dims: usize, random: &mut ChaCha8Rng) -> Function {
        let mut number = || random.random_range(-1.0..1.0);
        let rows = (0..2 * dims).map(|_| ((0..dims).map(|_| number()).collect(), number())).collect();
        Function::Waves(rows, (0..dims).map(|_| 1e-3 + number().powi(4)).collect())
    }

    fn value(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut value = 0.0;
        match self {
            Function::Valley => {
                for j in 1..x.len() {
                    let (a, b) = (1.0 - x[j - 1], x[j] - x[j - 1] * x[j - 1]);
                    gradient[j - 1] += -2.0 * a - 400.0 * x[j - 1] * b;
                    gradient[j] += 200.0 * b;
                    value += a * a + 100.0 * b * b;
                }
            }
            Function::Waves(rows, weights) => {
                for (a, b) in rows {
                    let t = a.iter().zip(x).map(|(a, x)| a * x).sum::<f64>() - b;
                    value += t.abs() + (-2.0 * t.abs()).exp().ln_1p();
                    gradient.iter_mut().zip(a).for_each(|(g, a)| *g += t.tanh() * a);
                }
                for ((g, c), x) in gradient.iter_mut().zip(weights).zip(x) {
                    value += 0.5 * c * x * x;
                    *g += c * x;
                }
            }
            Function::Bowl(weights) => {
                for ((g, c), x) in gradient.iter_mut().zip(weights).zip(x) {
                    value += 0.5 * c * (x - 1.0) * (x - 1.0);
                    *g = c * (x - 1.0);
                }
            }
        }
        value
    }
}

/// A function times a number, as a problem for argmin.
struct Scaled(Function, f64);

impl CostFunction for Scaled {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, Error> {
        // argmin's line search does not end if a value is NaN.
        if x.iter().all(|x| x.is_finite()) {
            Ok(self.0.value(x, &mut vec![0.0; x.len()]) * self.1)
        } else {
            Err(Error::msg("not a point"))
        }
    }
}

impl Gradient for Scaled {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, x: &Vec<f64>) -> Result<Vec<f64>, Error> {
        let mut gradient = vec![0.0; x.len()];
        self.0.value(x, &mut gradient);
        Ok(gradient.iter().map(|g| g * self.1).collect())
    }
}

/// A function as a problem for our solvers, which records the point at the end of every iteration.
struct Watched {
    function: Function,
    iterates: Vec<Vec<f64>>,
}

impl HyperObjective for Watched {
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        self.function.value(theta, gradient)
    }

    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        self.iterates.push(theta.to_vec());
        None
    }
}

fn limits(epochs: usize) -> Limits {
    Limits {
        epochs,
        steps: None,
        seconds: None,
        tolerance: 0.0,
        window: 10,
        range: None,
        plateaus: 0,
        patience: usize::MAX,
        target: None,
    }
}

fn bits(x: &[f64]) -> Vec<u64> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Returns the iterates of argmin's L-BFGS with their costs, until its line search fails.
fn iterates_of_argmin(problem: Scaled, start: &[f64], memory: usize, most: usize) -> Vec<(Vec<f64>, f64)> {
    let search = MoreThuenteLineSearch::new().with_c(1e-4, 0.9).expect("constants");
    let mut solver: LBFGS<_, Vec<f64>, Vec<f64>, f64> = LBFGS::new(search, memory);
    let mut problem = Problem::new(problem);
    let state: IterState<Vec<f64>, Vec<f64>, (), (), (), f64> = IterState::new().param(start.to_vec());
    let (mut state, _) = solver.init(&mut problem, state).expect("a start");
    let mut iterates = Vec::new();
    while iterates.len() < most {
        state = solver.next_iter(&mut problem, state).expect("an iteration").0;
        state.increment_iter();
        let Some(param) = state.get_param() else { break };
        iterates.push((param.clone(), state.get_cost()));
    }
    iterates
}

fn compare(function: &Function, start: &[f64], options: LbfgsOptions) -> usize {
    let mut gradient = vec![0.0; start.len()];
    function.value(start, &mut gradient);
    let scale = options.first_step / gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    let theirs = iterates_of_argmin(Scaled(function.clone(), scale), start, options.memory, 80);

    let mut watched = Watched { function: function.clone(), iterates: Vec::new() };
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(limits(theirs.len()), &mut ignore);
    minimize_lbfgs(&mut watched, start.to_vec(), 1.0, options, &mut monitor);
    let records = monitor.records();
    assert_eq!((watched.iterates.len(), records.len()), (theirs.len(), theirs.len()));
    for (k, ((theta, cost), (ours, record))) in
        theirs.iter().zip(watched.iterates.iter().zip(records)).enumerate()
    {
        assert_eq!(bits(ours), bits(theta), "iterate {k} of {}", theirs.len());
        assert_eq!(record.objective.to_bits(), (cost / scale).to_bits(), "value {k} of {}", theirs.len());
    }
    theirs.len()
}

#[test]
fn lbfgs_makes_the_iterates_of_argmins_to_the_last_bit() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut iterations = 0;
    for dims in 2..=30 {
        for memory in [0, 1, 3, 7, 50] {
            let start: Vec<f64> = (0..dims).map(|_| random.random_range(-2.0..2.0)).collect();
            let first_step = random.random_range(0.1..5.0);
            let options = LbfgsOptions { memory, first_step, ..LbfgsOptions::default() };
            let bowl = Function::Bowl((0..dims).map(|j| 10f64.powi(j % 5 - 2)).collect());
            for function in [Function::Valley, Function::waves(dims as usize, &mut random), bowl] {
                iterations += compare(&function, &start, options);
            }
        }
    }
    assert!(iterations > 10_000, "{iterations} iterations were compared");
}
