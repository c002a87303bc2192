//! A synthetic problem of one shape, and its training step in one of several forms.

use super::common::milliseconds;
use faer::{Mat, MatRef};
use sparsegp::gradient::Batch;
use sparsegp::hyper::{Adam, AdamOptions, FreeVector, Pace};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::LatentModel;
use sparsegp::objective::Objective;
use sparsegp::training::VariationalModel;
use sparsegp::variational::{Family, NaturalGradient, Normal, Rules};
use sparsegp_testkit::shapes::{model, points, targets_for};

/// The form of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Step {
    Stable,
    Direct,
}

/// Data of a shape, targets that suit a likelihood, and the model.
pub struct Problem {
    /// The inputs, D × b.
    pub x: Mat<f64>,
    pub y: Vec<f64>,
    /// The model with its factor of `K_uu`.
    pub model: LatentModel,
}

impl Problem {
    /// Creates a problem with M inducing inputs and b data of D dimensions.
    pub fn new(m: usize, b: usize, dims: usize, likelihood: LikelihoodKind) -> Self {
        let x = points(dims, b, 0.0);
        let y = targets_for(likelihood, &x);
        let mut model = model(likelihood, m, dims);
        model.likelihood.initialise(&y, &[]);
        Problem { x, y, model }
    }

    /// Returns the number of inducing inputs M.
    pub fn inducing(&self) -> usize {
        self.model.layer().dim()
    }

    /// The first `rows` inputs.
    pub fn inputs(&self, rows: usize) -> MatRef<'_, f64> {
        self.x.transpose().subrows(0, rows)
    }

    /// The first `rows` targets.
    pub fn targets(&self, rows: usize) -> &[f64] {
        &self.y[..rows]
    }

    /// Returns a function that times one joint step: batch objective and all gradients, q by a natural
    /// gradient, θ and Z by Adam, and the refactorisation of `K_uu`.
    pub fn step_timer(&self, form: Step) -> impl FnMut() -> f64 + use<> {
        let model = self.model.clone();
        let free = FreeVector::new(&model.descriptors());
        let mut natural = model.natural();
        let mut gradient = vec![0.0; free.len()];
        let mut adam = Adam::new(free.pack(&natural), AdamOptions { rate: 1e-3, decay_share: 0.0 });
        let q = Normal::standard(Family::Full, self.inducing());
        let mut rules = Rules::from(NaturalGradient::new(&q));
        let mut svgp = VariationalModel::new(model, q, Objective::elbo(1.0), self.y.len())
            .with_direct_guard((form == Step::Direct).then_some(f64::INFINITY));
        let (x, y) = (self.x.clone(), self.y.clone());
        let mut step = move || {
            let value = svgp.evaluate_under(Batch::of(x.transpose(), &y, 10.0), true, rules.factor());
            free.pull_back(&natural, svgp.theta_gradient(), &mut gradient);
            adam.take(value, &gradient, Pace { total_steps: 1, plateaus: 0 });
            free.unpack(adam.theta(), &mut natural);
            svgp.advance(&mut rules, 0.1, &natural);
        };
        // Runs on a thread of the pool, as in a fit.
        move || milliseconds(|| rayon::scope(|_| step()))
    }
}
