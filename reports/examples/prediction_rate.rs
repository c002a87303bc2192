//! Times predictions of many rows against the machine's own GEMM rate in the same run.
//!
//! `cargo run --release --example prediction_rate -- --rows 1000000 --inducing 512 --dims 8 --json`

mod common;

use clap::Parser;
use common::{gemm_timer, median, milliseconds, normals, print_report};
use faer::Mat;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Posterior;
use sparsegp::variational::Normal;
use sparsegp_testkit::shapes::{model, points};
use std::error::Error;

/// The size of the model and of the predictions, and the number of repeats.
#[derive(Parser)]
struct Args {
    /// Rows to predict.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// Inducing inputs M.
    #[arg(long, default_value_t = 512)]
    inducing: usize,
    /// Input dimensions D.
    #[arg(long, default_value_t = 8)]
    dims: usize,
    /// Threads (0 for all).
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Timed repeats; the median is reported.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    rayon::ThreadPoolBuilder::new().num_threads(args.threads).build_global()?;
    let (m, n) = (args.inducing, args.rows);
    let mut normal = normals(1);
    let x = points(args.dims, n, 0.0);
    let posterior = posterior(m, args.dims, &mut normal)?;

    let mut product = gemm_timer(m, m);
    let (mut gemm, mut both, mut means) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repeats {
        gemm.extend((0..10).map(|_| product()));
        both.push(milliseconds(|| drop(posterior.marginals(x.transpose()))));
        means.push(milliseconds(|| drop(posterior.means(x.transpose()))));
    }
    let rate = 2e3 * (m as f64).powi(3) / median(gemm);
    let (both, means) = (1e3 * n as f64 / median(both), 1e3 * n as f64 / median(means));
    let report = serde_json::json!({
        "rows": n, "inducing": m, "dims": args.dims, "threads": rayon::current_num_threads(),
        "rows_per_second": both, "rows_per_second_mean_only": means, "gemm_gflops": rate / 1e9,
        "roofline_ratio": both * (m * m) as f64 / rate,
    });
    print_report(&report, args.json);
    Ok(())
}

/// Creates a posterior that differs from the prior, with inducing inputs drawn like the data.
fn posterior(m: usize, dims: usize, normal: &mut impl FnMut() -> f64) -> Result<Posterior, Box<dyn Error>> {
    let model = model(LikelihoodKind::Gaussian, m, dims);
    let root = Mat::from_fn(m, m, |i, j| if i == j { 0.1 } else { 0.1 * normal() / m as f64 });
    let q = Normal::new((0..m).map(|_| normal()).collect(), &root * root.transpose())?;
    Ok(Posterior::new(&model, &q))
}
