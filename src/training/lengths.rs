//! Starting lengthscales and periods: a coarse grid and a periodogram, compared by the evidence of a sample of the rows, or by its bound for
//! the inducing inputs.

use crate::linalg::{Factorizer, add_diagonal, copy_lower, dot, invert_lower, log_det, solve_lower, trace};
use faer::{ColRef, Mat, MatRef, Scale};
use sparsegp_kernels::{Inputs, Kernel, Role, Scratch, Unit};
use std::f64::consts::TAU;

/// The maximum number of rows that starting values are compared on.
pub(super) const SAMPLE: usize = 256;

/// The factors of the lengthscales from the spread of the inputs.
const FACTORS: [f64; 4] = [1.0 / 3.0, 1.0 / 9.0, 1.0 / 27.0, 1.0 / 81.0];

/// The noise variances, relative to the kernel's variance, of which the best counts.
const NOISES: [f64; 6] = [1e-4, 1e-2, 0.1, 1.0, 10.0, 100.0];

/// The jitter of `K_zz`, relative to its mean variance.
const JITTER: f64 = 1e-6;

/// Other lengths replace those from the spread of the inputs if they raise the log evidence by more than this many nats, and by more than
/// this many nats per row: training covers smaller differences.
const LEAST_GAIN: (f64, f64) = (3.0, 0.02);

/// The maximum number of columns whose lengthscales are tried in turn.
const COLUMNS: usize = 8;

/// The maximum number of functions that are compared, such as scores of classes.
const FUNCTIONS: usize = 4;

/// The number of peaks of a periodogram that are tried.
const PEAKS: usize = 3;

/// The number of frequencies of a periodogram per cycle over the range of the input, and the maximum number of cycles.
const OVERSAMPLING: usize = 4;
const MOST_CYCLES: usize = 1024;

/// The fewest rows in a cycle, among all rows.
const ROWS_A_CYCLE: usize = 2;

/// Lengthscale of a squared exponential that suits a sine, as a share of its period.
const OF_PERIOD: f64 = 0.2;

/// A sample of the rows: inputs `n × D`, and for every function of the kernel the values that it should explain, centred.
pub(super) struct LengthSample<'a> {
    x: MatRef<'a, f64>,
    responses: Vec<Vec<f64>>,
    /// The number of all rows.
    all: usize,
}

/// A covariance G of n values y up to noise: G itself, or `G = FᵀF` by its smaller matrix `F Fᵀ`.
struct Covariance {
    /// G or `F Fᵀ`.
    gram: Mat<f64>,
    /// y or `F y`, for every function.
    sides: Vec<Vec<f64>>,
    /// For `F Fᵀ`, the sum of the squares of y over functions, and the number of values minus that of the rows of F.
    rest: Option<(f64, usize)>,
}

impl Covariance {
    fn trace(&self) -> f64 {
        trace(self.gram.as_ref())
    }

    /// Returns `Σ yᵀ(G + ρI)⁻¹y` over functions and `log|G + ρI|`; `None` without a Cholesky factor. With F they are
    /// `(yᵀy − (Fy)ᵀ(F Fᵀ + ρI)⁻¹Fy)/ρ` and `log|F Fᵀ + ρI|` plus `log ρ` for every other value.
    fn squares_and_log_det(&self, noise: f64) -> Option<(f64, f64)> {
        let m = self.gram.nrows();
        let mut factor = Mat::zeros(m, m);
        copy_lower(self.gram.as_ref(), factor.as_mut());
        add_diagonal(factor.as_mut(), noise);
        Factorizer::new(m).cholesky(factor.as_mut()).ok()?;
        let solved = self.sides.iter().map(|side| {
            let mut solved = side.clone();
            solve_lower(factor.as_ref(), &mut solved);
            dot(&solved, &solved)
        });
        let (solved, log_det) = (solved.sum::<f64>(), log_det(factor.as_ref()));
        Some(match self.rest {
            None => (solved, log_det),
            Some((squares, others)) => ((squares - solved) / noise, log_det + others as f64 * noise.ln()),
        })
    }
}

/// A value of the kernel that is a length.
struct Length {
    value: usize,
    columns: Vec<usize>,
    is_period: bool,
}

impl<'a> LengthSample<'a> {
    /// Creates the sample of `all` rows.
    pub fn new(x: MatRef<'a, f64>, mut responses: Vec<Vec<f64>>, all: usize) -> LengthSample<'a> {
        responses.truncate(FUNCTIONS);
        for response in &mut responses {
            let mean = response.iter().sum::<f64>() / response.len() as f64;
            response.iter_mut().for_each(|y| *y -= mean);
        }
        LengthSample { x, responses, all }
    }

    /// Returns the log evidence of the responses under the kernel up to a constant, with the best amplitude and the best of
    /// [`NOISES`]; negative infinity if it has no finite value. With inducing inputs it is Titsias' bound, in which Q replaces K.
    ///
    /// With `C = K/k̄ + ρI` and F functions the best amplitude is `s = Σ yᵀC⁻¹y/(nF)`, and the evidence `−½ F (n log s + log|C|)`; the bound
    /// is less by `½ F tr(K − Q)/(k̄ρ)`.
    pub fn evidence(&self, kernel: &dyn Kernel, z: Option<MatRef<'_, f64>>) -> f64 {
        let mut diagonal = vec![0.0; self.x.nrows()];
        kernel.diag(self.x, &mut diagonal, &mut Scratch::new());
        let (n, functions) = (diagonal.len() as f64, self.responses.len() as f64);
        let scale = diagonal.iter().sum::<f64>() / n;
        let Some(covariance) = self.covariance(kernel, z, scale) else { return f64::NEG_INFINITY };
        let lost = if z.is_some() { (n - covariance.trace()).max(0.0) } else { 0.0 };
        let of_noise = |noise: f64| {
            let (squares, log_det) = covariance.squares_and_log_det(noise)?;
            let value = -0.5 * functions * (n * (squares / (n * functions)).ln() + log_det + lost / noise);
            value.is_finite().then_some(value)
        };
        NOISES.into_iter().filter_map(of_noise).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns `K/k̄` of the sample, or `Q/k̄` with `Q = K_fz K_zz⁻¹ K_zf`; `None` if `K_zz` has no Cholesky factor.
    fn covariance(&self, kernel: &dyn Kernel, z: Option<MatRef<'_, f64>>, scale: f64) -> Option<Covariance> {
        let (n, m) = (self.x.nrows(), z.map_or(0, |z| z.nrows()));
        let squares = self.responses.iter().map(|y| dot(y, y)).sum();
        let Some(z) = z else {
            let mut k = Mat::zeros(n, n);
            kernel.eval(Inputs::Gram(self.x), k.as_mut(), &mut Scratch::new());
            return Some(Covariance {
                gram: k * Scale(1.0 / scale),
                sides: self.responses.clone(),
                rest: None,
            });
        };
        let (mut factor, mut inverse, mut cross) = (Mat::zeros(m, m), Mat::zeros(m, m), Mat::zeros(m, n));
        kernel.eval(Inputs::Gram(z), factor.as_mut(), &mut Scratch::new());
        let jitter = JITTER * trace(factor.as_ref()) / m as f64;
        add_diagonal(factor.as_mut(), jitter);
        Factorizer::new(m).cholesky(factor.as_mut()).ok()?;
        invert_lower(factor.as_ref(), inverse.as_mut());
        kernel.eval(Inputs::Cross { left: z, right: self.x }, cross.as_mut(), &mut Scratch::new());
        let features = inverse * cross * Scale(scale.sqrt().recip());
        let sides =
            self.responses.iter().map(|y| (&features * ColRef::from_slice(y)).iter().copied().collect());
        let sides = sides.collect();
        Some(Covariance { gram: &features * features.transpose(), sides, rest: Some((squares, n - m)) })
    }

    /// Replaces the lengths that a kernel starts with if others explain the sample clearly better, with these inducing inputs if there are
    /// some.
    pub fn improve(&self, kernel: &mut dyn Kernel, z: Option<MatRef<'_, f64>>) {
        let lengths = free_lengths(kernel, self.x.ncols());
        if lengths.is_empty() {
            return;
        }
        let (at_start, start) = (self.evidence(kernel, z), values_of(kernel));
        let mut best = (at_start, start.clone());
        for length in lengths.iter().filter(|length| length.is_period) {
            let periods = length.columns.iter().flat_map(|&column| self.periods(column));
            // A peak may be the second harmonic of a wave.
            let periods: Vec<f64> = periods.flat_map(|period| [period, 2.0 * period]).collect();
            self.take_best(
                (kernel, z),
                &mut best,
                periods.iter().map(|&period| vec![(length.value, period)]),
            );
        }
        let scales: Vec<&Length> = lengths.iter().filter(|length| !length.is_period).collect();
        let shorter = |length: &Length, factor: f64| (length.value, start[length.value] * factor);
        let together =
            FACTORS.map(|factor| scales.iter().map(|length| shorter(length, factor)).collect::<Vec<_>>());
        self.take_best((kernel, z), &mut best, together.into_iter().filter(|values| !values.is_empty()));
        let several = scales.len() > 1;
        for length in scales.into_iter().take(COLUMNS) {
            let peak = length.columns.first().and_then(|&column| self.periods(column).first().copied());
            let of_peak = peak.map(|period| (length.value, OF_PERIOD * period));
            let factors = FACTORS.into_iter().filter(|_| several).map(|factor| shorter(length, factor));
            self.take_best((kernel, z), &mut best, factors.chain(of_peak).map(|value| vec![value]));
        }
        let gains = best.0 > at_start + clear_gain(self.x.nrows());
        set_values(kernel, if gains { &best.1 } else { &start });
    }

    /// Changes some values of the best ones so far, and keeps the changes with the highest evidence if that is a rise.
    fn take_best(
        &self,
        (kernel, z): (&mut dyn Kernel, Option<MatRef<'_, f64>>),
        best: &mut (f64, Vec<f64>),
        changes: impl Iterator<Item = Vec<(usize, f64)>>,
    ) {
        let from = best.1.clone();
        for change in changes {
            let mut values = from.clone();
            change.into_iter().for_each(|(value, length)| values[value] = length);
            set_values(kernel, &values);
            let evidence = self.evidence(kernel, z);
            if evidence > best.0 {
                *best = (evidence, values);
            }
        }
    }

    /// Returns the periods of the highest peaks of the Lomb–Scargle periodogram along a column, highest first.
    fn periods(&self, column: usize) -> Vec<f64> {
        let x: Vec<f64> = self.x.col(column).iter().copied().collect();
        let ends =
            x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        let range = ends.1 - ends.0;
        if !(range > 0.0 && range.is_finite()) {
            return Vec::new();
        }
        let cycles = (self.all / ROWS_A_CYCLE).min(MOST_CYCLES);
        // Waves by the angle of the first harmonic of `OVERSAMPLING` ranges: each frequency turns them by one more step.
        let steps: Vec<(f64, f64)> =
            x.iter().map(|x| (TAU * (x - ends.0) / (range * OVERSAMPLING as f64)).sin_cos()).collect();
        let mut waves = vec![(0.0, 1.0); x.len()];
        let mut powers = Vec::with_capacity(cycles * OVERSAMPLING);
        for _ in 0..cycles * OVERSAMPLING {
            for ((sine, cosine), (s, c)) in waves.iter_mut().zip(&steps) {
                (*sine, *cosine) = (*sine * c + *cosine * s, *cosine * c - *sine * s);
            }
            powers.push(self.responses.iter().map(|response| power(&waves, response)).sum::<f64>());
        }
        let is_peak = |i: usize| {
            let at = |i: usize| powers.get(i).copied().unwrap_or(0.0);
            i + 1 >= OVERSAMPLING && at(i) > at(i - 1) && at(i) >= at(i + 1)
        };
        let mut peaks: Vec<usize> = (1..powers.len()).filter(|&i| is_peak(i)).collect();
        peaks.sort_by(|&a, &b| powers[b].total_cmp(&powers[a]));
        peaks.truncate(PEAKS);
        peaks.into_iter().map(|i| range * OVERSAMPLING as f64 / (i + 1) as f64).collect()
    }
}

/// Returns the gain of log evidence of a sample, in nats, above which one start is clearly better than another.
pub(super) fn clear_gain(rows: usize) -> f64 {
    LEAST_GAIN.0.max(LEAST_GAIN.1 * rows as f64)
}

/// Returns the lengths along columns of numbers that have no given values.
fn free_lengths(kernel: &dyn Kernel, dims: usize) -> Vec<Length> {
    let along = kernel.units(dims).into_iter().map(Unit::length);
    let (mut roles, dimensions) = (Vec::new(), kernel.dimensions());
    kernel.for_each_parameter(&mut |parameter| {
        let role = (!parameter.fixed && !parameter.given).then(|| parameter.role());
        roles.extend(std::iter::repeat_n(role, parameter.values.len()));
    });
    let lengths = roles.into_iter().zip(along).enumerate().filter_map(|(value, (role, columns))| {
        let numbers = columns.iter().all(|&c| !dimensions.get(c).is_some_and(|d| d.is_category()));
        let is_period = role? == Role::Period;
        (numbers && !columns.is_empty()).then_some(Length { value, columns, is_period })
    });
    lengths.collect()
}

fn values_of(kernel: &dyn Kernel) -> Vec<f64> {
    let mut values = Vec::new();
    kernel.for_each_parameter(&mut |parameter| values.extend_from_slice(&parameter.values));
    values
}

fn set_values(kernel: &mut dyn Kernel, values: &[f64]) {
    let mut values = values.iter().copied();
    kernel.for_each_parameter_mut(&mut |parameter| {
        let own: Vec<f64> = values.by_ref().take(parameter.values.len()).collect();
        parameter.start(|value| own[value]);
    });
}

/// Returns the sum of squares of `y` that a sine, a cosine and a constant explain; `y` has mean 0.
fn power(waves: &[(f64, f64)], y: &[f64]) -> f64 {
    let n = y.len() as f64;
    let (mut s, mut c, mut ss, mut cc, mut sc, mut ys, mut yc) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for ((sine, cosine), y) in waves.iter().zip(y) {
        (s, c) = (s + sine, c + cosine);
        (ss, cc, sc) = (ss + sine * sine, cc + cosine * cosine, sc + sine * cosine);
        (ys, yc) = (ys + y * sine, yc + y * cosine);
    }
    let (ss, cc, sc) = (ss - s * s / n, cc - c * c / n, sc - s * c / n);
    let determinant = ss * cc - sc * sc;
    let power = (ys * ys * cc + yc * yc * ss - 2.0 * ys * yc * sc) / determinant;
    if determinant > 1e-6 * n * n { power } else { 0.0 }
}
