//! `compare`: runs objectives on one data file, over repeats and training-set sizes, and writes tables and a report.

use super::args::CompareArgs;
use super::progress::Progress;
use super::{output, page};
use sparsegp::files::AtomicFile;
use sparsegp::model::Warning;
use sparsegp::options::check_threads;
use sparsegp::{Error, Result};
use sparsegp_reports::comparison::{legend, page as page_of, table};
use sparsegp_reports::reproduce;
use sparsegp_tables::compare::{
    Finished, Group, Plan, Results, Settings, Store, fingerprint, results_csv, run as run_plan, summarise,
    summary_csv,
};
use std::path::Path;

pub fn run(args: &CompareArgs) -> Result<()> {
    let settings = args.settings()?;
    check(args, &settings)?;
    let all = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = args.threads.unwrap_or_else(all);
    check_threads(threads)?;
    let data = args.columns.read(&args.data)?;
    let plan = Plan::new(&settings, &data)?;
    let store = Store::open(&args.out, &fingerprint(&settings, &args.data)?)?;
    let outputs = ["results.csv", "summary.csv", "report.html"].map(|name| args.out.join(name));
    output::check_paths(&outputs, &[&args.data])?;
    args.plots.as_deref().map(page::check_folder).transpose()?;
    for note in &plan.notes {
        output::note(&format!("note: {}", Warning::from(note.clone()).words_with(&output::dashes)));
    }
    let total = plan.phases().iter().map(Vec::len).sum();
    let mut progress = Progress::of_fits(args.data.display().to_string(), total, args.quiet);
    let results =
        run_plan(&plan, &store, threads, &mut |news| progress.show_fit(news.done, news.total, text(&news)))?;
    drop(progress);
    let groups = summarise(&results);
    write(args, &plan, &results, &groups)?;
    results.check()?;
    show(&plan, &results, &groups)
}

/// Validates the arguments before the data are read.
fn check(args: &CompareArgs, settings: &Settings) -> Result<()> {
    if args.data == Path::new("-") {
        return Err(Error::usage("compare reads its data from a file, not from standard input")
            .hint("save the data in a file: an interrupted comparison reads them again"));
    }
    settings.validate()?;
    let given = &args.given;
    given.check(&settings.options)?;
    match given.mini_batch_option(&settings.options) {
        Some(name) if !settings.needs_elbo() => {
            Err(Error::usage(format!("{name} is for mini-batches and has no effect on vfe and fitc"))
                .hint(format!("leave {name} out, or add elbo or dlm-log to --objectives")))
        }
        _ => Ok(()),
    }
}

fn text(news: &Finished<'_>) -> String {
    let Some(row) = news.row else { return "done before".to_owned() };
    let what = format!("{}  {} rows  repeat {}", row.objective, row.train_size, row.repeat);
    if row.error.is_some() {
        // `show` prints the reason at the end, once for all units that fail with it.
        return format!("{what}  failed");
    }
    let nll = row.test.nll.map_or_else(|| "-".to_owned(), output::number);
    let seconds = row.fit.as_ref().map_or(0.0, |fit| fit.seconds);
    format!("{what}  NLL {nll}  {}", output::duration(seconds))
}

fn write(args: &CompareArgs, plan: &Plan<'_>, results: &Results, groups: &[Group]) -> Result<()> {
    let name = args.data.display().to_string();
    for (file, text) in [("results.csv", results_csv(results)?), ("summary.csv", summary_csv(groups)?)] {
        AtomicFile::write_all_to(&args.out.join(file), text.as_bytes())?;
    }
    let page = page_of(plan, results, groups, &name, reproduce(&page::command()), &output::dashes);
    page::write(&page, Some(&args.out.join("report.html")), args.plots.as_deref())
}

/// Prints the table on standard output and the failures on standard error.
fn show(plan: &Plan<'_>, results: &Results, groups: &[Group]) -> Result<()> {
    let failed = results.failures().count();
    for failure in results.failures_alike() {
        output::note(&format!("warning: {failed} of {} fits failed: {failure}", results.chosen().count()));
    }
    output::print(&output::table(&table(groups, plan.task)))?;
    output::print(&format!("{}\n", legend(groups)))
}
