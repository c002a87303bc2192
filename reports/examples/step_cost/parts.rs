//! The parts of a step in the stable form, each timed by itself with the library's own products and passes.

use super::{Problem, interleaved, milliseconds};
use faer::{Accum, Mat, MatRef};
use sparsegp::columns;
use sparsegp::data::{Purpose, generator};
use sparsegp::gradient::{Batch, WINDOW_ROWS, block_columns};
use sparsegp::kernels::Scratch;
use sparsegp::latent::{FeaturesAdjoint, LatentLayer, LayerScratch};
use sparsegp::linalg::{Operand, Part, block_product, product, spread};
use sparsegp::objective::{Derivatives, LossInputs, LossScratch, Objective, Targets};
use sparsegp::training::VariationalModel;
use sparsegp::variational::{Family, NaturalGradient, Normal};
use sparsegp::{Error, Result};

/// Returns the milliseconds of each part for the first rows of a problem, at most one window.
pub fn report(problem: &Problem, repeats: usize) -> Result<serde_json::Value> {
    let rows = problem.y.len().min(WINDOW_ROWS);
    let (names, mut runs): (Vec<_>, Vec<_>) =
        data_parts(problem, rows)?.into_iter().chain(inducing_parts(problem, rows)?).unzip();
    let times = interleaved(&mut runs, repeats);
    let mut report = serde_json::json!({ "rows": rows });
    for (name, time) in names.into_iter().zip(times) {
        report[name] = time.into();
    }
    Ok(report)
}

type Named<'a> = (&'static str, Box<dyn FnMut() -> f64 + 'a>);

/// Returns a part that is done so many times in a step.
fn timed<'a>(name: &'static str, times: f64, mut part: impl FnMut() + 'a) -> Named<'a> {
    (name, Box::new(move || times * milliseconds(&mut part)))
}

/// Returns the work for every block of columns. The time of one block is multiplied by the number of blocks.
fn data_parts(problem: &Problem, rows: usize) -> Result<Vec<Named<'_>>> {
    let (m, model) = (problem.inducing(), &problem.model);
    let columns = block_columns(m, rows).min(rows);
    let blocks = rows as f64 / columns as f64;
    let (x, y) = (problem.inputs(columns), problem.targets(columns));
    let (mut k, mut base, mut offset) = (Mat::zeros(m, columns), vec![0.0; columns], vec![0.0; columns]);
    model.layer().features(x, k.as_mut(), &mut base, &mut offset, &mut Scratch::new());
    let whitening =
        model.layer().whitening().ok_or_else(|| Error::fit("the layer has no whitening"))?.matrix.to_owned();
    let mut a = Mat::zeros(m, columns);
    block_product(a.as_mut(), Accum::Replace, Operand::lower(whitening.as_ref()), k.as_ref(), 1.0);
    let quad = Mat::from_fn(m, m, |i, j| 1e-3 * ((i + j) % 7) as f64);
    let weights = vec![0.01; columns];

    let (layer, mut scratch) = (model.layer().clone(), Scratch::new());
    let (mut out, mut o, mut p) = (k.clone(), base.clone(), offset.clone());
    let kernel = move || layer.features(x, out.as_mut(), &mut o, &mut p, &mut scratch);

    let whiten = block_timer(whitening.clone(), |left| Operand::lower(left), k.clone());
    let quadratic = block_timer(quad, |left| Operand::full(left), a.clone());
    let adjoint = block_timer(whitening, |left| Operand::upper(left.transpose()), a.clone());

    let (left, mut t, mean) = (a.clone(), a.clone(), vec![0.01; m]);
    let (mut mu, mut v, mut c, g) = (offset.clone(), base.clone(), vec![0.0; m], weights.clone());
    let marginals = move || {
        columns::add_moments(left.as_ref(), &mean, t.as_ref(), &mut mu, &mut v);
        columns::add_matvec(left.as_ref(), &g, &mut c);
        columns::rank_one_plus_scaled(t.as_mut(), &mean, &g, &g);
    };

    let objective = Objective::elbo(1.0);
    let own = model.likelihood.own_len();
    let (likelihood, mut losses) = (model.likelihood.clone(), LossScratch::new(&objective));
    let mut random = generator(0, Purpose::Estimator, 0);
    let (mu, v) = (vec![0.1; columns], vec![0.5; columns]);
    let [mut g, mut h, mut residual, mut bend] = [0; 4].map(|_| vec![0.0; columns]);
    let mut own = vec![0.0; own];
    let likelihood = move || {
        let out = Derivatives {
            mean: &mut g,
            variance: &mut h,
            residual: &mut residual,
            curvature: &mut bend,
            own: &mut own,
        };
        let rows = LossInputs { targets: Targets::of(y), mean: &mu, variance: &v, residual: &[] };
        objective.losses(&likelihood, 1.0, rows, out, &mut losses, &mut random);
    };

    let (layer, mut scratch, h) = (model.layer().clone(), Scratch::new(), weights.clone());
    let (mut gradient, bar, left) = (layer.zero_gradient(), a.clone(), k.clone());
    let kernel_adjoint = move || {
        let by = FeaturesAdjoint {
            x,
            features: left.as_ref(),
            features_bar: bar.as_ref(),
            base_bar: &h,
            offset_bar: &h,
        };
        layer.features_adjoint(by, &mut gradient, &mut scratch);
    };

    let mut out = spread(columns, m);
    let scaled = move || columns::scale_columns_transposed(a.as_ref(), &weights, out.as_mut());

    Ok(vec![
        timed("kernel", blocks, kernel),
        timed("A = L⁻¹K", blocks, whiten),
        timed("T = (S − I)A", blocks, quadratic),
        timed("marginals", blocks, marginals),
        timed("likelihood", blocks, likelihood),
        timed("K̄", blocks, adjoint),
        timed("kernel's adjoint", blocks, kernel_adjoint),
        timed("diag(h)Aᵀ", blocks, scaled),
    ])
}

/// Returns a product of a matrix, read in this form, with a block of columns.
fn block_timer(left: Mat<f64>, form: fn(MatRef<'_, f64>) -> Operand<'_>, right: Mat<f64>) -> impl FnMut() {
    let mut out = right.clone();
    move || block_product(out.as_mut(), Accum::Replace, form(left.as_ref()), right.as_ref(), 1.0)
}

/// Returns the work that is done once per window or once per step.
fn inducing_parts(problem: &Problem, rows: usize) -> Result<Vec<Named<'_>>> {
    let m = problem.inducing();
    let (mut sum, mut features, mut scaled) = (spread(m, m), spread(m, rows), spread(rows, m));
    features.as_mut().fill(0.1);
    scaled.as_mut().fill(0.1);
    let outer = move || {
        let (left, right) = (Operand::full(features.as_ref()), Operand::full(scaled.as_ref()));
        product(sum.as_mut(), Part::Lower, Accum::Replace, left, right, 1.0);
    };

    let mut model = problem.model.clone();
    let natural = model.natural();
    let refresh = move || _ = model.set_natural(&natural);

    let q = Normal::standard(Family::Full, m);
    let mut rule = NaturalGradient::new(&q);
    let mut svgp = VariationalModel::new(problem.model.clone(), q, Objective::elbo(1.0), rows);
    svgp.evaluate(Batch::of(problem.inputs(rows), problem.targets(rows), 1.0), false);
    let update = move || _ = svgp.update_q(&mut rule, 0.1);

    let model = problem.model.clone();
    let [s, b] = [0.01, 0.02].map(|value| Mat::from_fn(m, m, |i, j| value * ((i + j) % 7) as f64));
    let (mut g, mut gradient, mut scratch) =
        (spread(m, m), model.layer().zero_gradient(), LayerScratch::new(m));
    let adjoint = move || {
        let (left, right) = (Operand::full(s.as_ref()), Operand::full(b.as_ref()));
        product(g.as_mut(), Part::Lower, Accum::Replace, left, right, 2.0);
        model.layer().whitening_adjoint(g.as_mut(), &mut gradient, &mut scratch);
    };

    Ok(vec![
        timed("B = A diag(h) Aᵀ", 1.0, outer),
        timed("K_uu, L, L⁻¹", 1.0, refresh),
        timed("adjoint of K_uu", 1.0, adjoint),
        timed("update of q", 1.0, update),
    ])
}
