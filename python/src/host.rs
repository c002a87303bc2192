//! Running work outside the interpreter: pools of threads that survive a fork, events passed to
//! Python, Ctrl-C.

use crate::convert::{FitError, raised};
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sparsegp::hyper::{Event, Listener};
use sparsegp::options::check_threads;
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The interval between checks for Ctrl-C.
const LISTENING: Duration = Duration::from_millis(50);

/// The stack size of a thread, which must suffice for nested work.
const STACK: usize = 16 << 20;

/// The pools of a process, by their number of threads.
struct Pools {
    process: u32,
    by_threads: HashMap<usize, Arc<ThreadPool>>,
}

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// Returns the default number of threads: the number in the environment (with which joblib sets each worker's
/// share of the cores), or one per core.
pub fn usual_threads() -> usize {
    let allowed =
        |name: &str| std::env::var(name).ok()?.trim().parse().ok().filter(|&threads: &usize| threads > 0);
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
    ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"].into_iter().find_map(allowed).unwrap_or_else(cores)
}

/// Returns the pool with this number of threads, or with the default number. A forked process has none of its
/// parent's threads, so it creates a new pool. This function and forks need the interpreter, so no fork
/// happens while the lock is held.
fn pool(_: Python<'_>, threads: Option<usize>) -> PyResult<Arc<ThreadPool>> {
    let threads = threads.unwrap_or_else(usual_threads);
    check_threads(threads).map_err(raised)?;
    let mut pools = locked(&POOLS);
    let process = std::process::id();
    if let Some(old) = pools.take_if(|pools| pools.process != process) {
        // Its threads do not exist in this process, so they cannot be joined.
        std::mem::forget(old);
    }
    let pools = pools.get_or_insert_with(|| Pools { process, by_threads: HashMap::new() });
    if let Some(pool) = pools.by_threads.get(&threads) {
        return Ok(pool.clone());
    }
    let pool = ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK).build();
    let pool = Arc::new(pool.map_err(|error| FitError::new_err(format!("n_threads={threads}: {error}")))?);
    pools.by_threads.insert(threads, pool.clone());
    Ok(pool)
}

/// A message from the work to the calling thread: a call that needs the thread, or the outcome.
enum News<'a, T> {
    Call(Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send + 'a>),
    Done(Result<T, Box<dyn Any + Send>>),
}

/// The work's link to its caller: listeners, and requests to end.
pub struct Host<'a> {
    /// Passes an event to the listener and waits until it returns.
    pub tell: &'a mut Listener<'a>,
    /// Asks Python a question and waits for the answer; `None` after an exception.
    pub ask: &'a Ask<'a>,
    /// True if the work should end without a result.
    pub interrupted: &'a AtomicBool,
    /// True if the work should end with its present result.
    pub enough: &'a AtomicBool,
}

impl<'a> Host<'a> {
    /// Returns a function that is true once the work should end without a result.
    pub fn stopped(&self) -> impl Fn() -> bool + Sync + use<'a> {
        let interrupted = self.interrupted;
        move || interrupted.load(Ordering::Relaxed)
    }
}

/// Python's listener for events; it returns true to end the work.
pub type Hear<'a> = dyn FnMut(Python<'_>, &Event) -> PyResult<bool> + Send + 'a;

/// Asks a question, given by its name and bytes; the answer is bytes, too.
pub type Ask<'a> = dyn Fn(&'static str, Vec<u8>) -> Option<Vec<u8>> + Sync + 'a;

/// The function in Python that answers questions.
pub type Answer<'a> = dyn FnMut(Python<'_>, &'static str, &[u8]) -> PyResult<Vec<u8>> + Send + 'a;

/// Does `work` on a pool while other threads can use the interpreter. The calling thread waits, and passes
/// events to `listener`, which returns true to end the work. Ctrl-C and exceptions of the listener end the
/// work soon, and are then raised.
pub fn run<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    listener: Option<&mut Hear<'_>>,
    work: impl FnOnce(Host<'_>) -> T + Send,
) -> PyResult<T> {
    run_with(py, threads, Ears { hear: listener, answer: None }, work)
}

/// The Python functions that receive events and answer questions.
pub struct Ears<'a, 'f> {
    pub hear: Option<&'a mut Hear<'f>>,
    pub answer: Option<&'a mut Answer<'f>>,
}

/// The maximum depth of nested calls of the engine by Python callbacks on one thread. Each call takes a part
/// of the stack.
const MOST_NESTED: usize = 8;

thread_local! {
    static NESTED: Cell<usize> = const { Cell::new(0) };
}

/// A guard that counts a nested call on this thread while it exists.
struct Nested;

impl Nested {
    fn enter() -> PyResult<Nested> {
        let depth = NESTED.get();
        if depth >= MOST_NESTED {
            return Err(PyRecursionError::new_err(format!(
                "callbacks are nested more than {MOST_NESTED} calls deep: a callback may fit or predict, but not recursively without limit"
            )));
        }
        NESTED.set(depth + 1);
        Ok(Nested)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// Like [`run`], for work that also asks questions.
pub fn run_with<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    ears: Ears<'_, '_>,
    work: impl FnOnce(Host<'_>) -> T + Send,
) -> PyResult<T> {
    let _nested = Nested::enter()?;
    if rayon::current_thread_index().is_some() && ears.hear.is_none() && ears.answer.is_none() {
        return on_this_thread(py, work);
    }
    let pool = pool(py, threads)?;
    let (interrupted, enough) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let Ears { hear, answer } = ears;
    let hear = hear.map(|hear| Arc::new(Mutex::new(hear)));
    let answer = answer.map(|answer| Arc::new(Mutex::new(answer)));
    let (news, heard) = channel();
    let job = move || {
        let (told, asked) = (news.clone(), news.clone());
        let mut tell = move |event: &Event| {
            let (Some(hear), event) = (hear.clone(), *event) else { return };
            let seen = on_caller(&told, move |py| locked(&hear)(py, &event));
            enough.fetch_or(seen.unwrap_or(false), Ordering::Relaxed);
        };
        let ask = move |name: &'static str, work: Vec<u8>| {
            let answer = answer.clone()?;
            on_caller(&asked, move |py| locked(&answer)(py, name, &work))
        };
        let host = Host { tell: &mut tell, ask: &ask, interrupted, enough };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(host)));
        // The caller waits for this message.
        let _ = news.send(News::Done(outcome));
    };
    let outcome = py.detach(move || {
        pool.in_place_scope(|scope| {
            scope.spawn(|_| job());
            attend(&heard, interrupted)
        })
    })?;
    outcome.map_err(|panic| FitError::new_err(defect(panic.as_ref())))
}

/// Locks a mutex, also after a panic of another holder.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call on the calling thread and waits for its result; `None` after an exception. Meanwhile this thread does other work of the pool,
/// so that a listener can predict.
fn on_caller<'a, T, R: Send + 'a>(
    news: &Sender<News<'a, T>>,
    call: impl FnOnce(Python<'_>) -> PyResult<R> + Send + 'a,
) -> Option<R> {
    let (reply, replies) = channel();
    let call = Box::new(move |py: Python<'_>| call(py).map(|result| _ = reply.send(result)));
    news.send(News::Call(call)).ok()?;
    let mut pause = Duration::from_micros(50);
    loop {
        match replies.try_recv() {
            Ok(result) => return Some(result),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        if rayon::yield_now() != Some(rayon::Yield::Executed) {
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(1));
        }
    }
}

/// Does work that a Python kernel or likelihood requested on a thread of a pool. This thread must not wait
/// for the other threads, because they may wait for it.
fn on_this_thread<T: Send>(py: Python<'_>, work: impl FnOnce(Host<'_>) -> T + Send) -> PyResult<T> {
    let flag = AtomicBool::new(false);
    let here = || {
        let mut tell = |_: &Event| {};
        work(Host { tell: &mut tell, ask: &|_, _| None, interrupted: &flag, enough: &flag })
    };
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(here)));
    outcome.map_err(|panic| FitError::new_err(defect(panic.as_ref())))
}

/// The loop of the calling thread until the work is done. After an exception, further calls are dropped.
fn attend<T>(
    heard: &Receiver<News<'_, T>>,
    interrupted: &AtomicBool,
) -> PyResult<Result<T, Box<dyn Any + Send>>> {
    let mut raised = None;
    loop {
        let outcome = match heard.recv_timeout(LISTENING) {
            Ok(News::Done(done)) => return raised.map_or(Ok(done), Err),
            Ok(News::Call(_)) if raised.is_some() => continue,
            Ok(News::Call(call)) => Python::attach(|py| py.check_signals().and_then(|()| call(py))),
            Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(FitError::new_err("the work ended without an outcome"));
            }
        };
        if let Err(error) = outcome {
            interrupted.store(true, Ordering::Relaxed);
            raised.get_or_insert(error);
        }
    }
}

/// Returns the message for a panic, which is a defect.
fn defect(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    format!("a defect of sparsegp, please report it: {}", text.replace('\n', " "))
}
