//! Kernels and likelihoods that are Python objects: their registry, calls into them, and their
//! exceptions.

mod kernel;
mod likelihood;

use crate::convert::{Vector, raised};
use crate::host::{self, Hear, Host, locked};
use kernel::CustomKernel;
use likelihood::CustomLikelihood;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use sparsegp::Registry;
use sparsegp::kernels::{Parameter, Transform};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Kernels and likelihoods of Python, by name, and the exceptions that they have raised.
#[pyclass(frozen, module = "sparsegp._sparsegp", from_py_object)]
#[derive(Clone, Default)]
pub struct Custom {
    pub registry: Registry,
    faults: Arc<Faults>,
}

#[pymethods]
impl Custom {
    #[new]
    fn new(
        py: Python<'_>,
        kernels: Vec<Bound<'_, PyAny>>,
        likelihoods: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Custom> {
        let (mut registry, faults) = (Registry::default(), Arc::<Faults>::default());
        for kernel in kernels {
            let own = Own::new(&kernel, &faults)?;
            // The declarations of its parameters are read once here, where exceptions are raised.
            CustomKernel::new(py, own.clone(), 1)?;
            let name = own.name;
            let make = Arc::new(move |columns| CustomKernel::boxed(own.clone(), columns));
            registry = registry.with_made_kernel(name, make).map_err(raised)?;
        }
        for likelihood in likelihoods {
            let likelihood = CustomLikelihood::new(&likelihood, Own::new(&likelihood, &faults)?)?;
            registry = registry.with_likelihood_like(Arc::new(likelihood)).map_err(raised)?;
        }
        Ok(Custom { registry, faults })
    }
}

impl Custom {
    /// Returns true if an object has raised an exception, so that the current work should end.
    pub fn has_raised(&self) -> bool {
        self.faults.any.load(Ordering::Relaxed)
    }

    /// Does `work`. If an object raises an exception meanwhile, it is returned instead of the result.
    pub fn watch<T>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        self.faults.state().running += 1;
        let outcome = work();
        match self.faults.end() {
            Some(error) => Err(error.clone_ref(py)),
            None => outcome,
        }
    }

    /// Does `work` on a pool; returns its result or its error.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        listener: Option<&mut Hear<'_>>,
        work: impl FnOnce(Host<'_>) -> sparsegp::Result<T> + Send,
    ) -> PyResult<T> {
        self.watch(py, || host::run(py, threads, listener, work)?.map_err(raised))
    }
}

/// The exceptions that objects raised during work with them.
#[derive(Default)]
pub struct Faults {
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    raised: Option<Arc<PyErr>>,
}

impl Faults {
    /// Locks the state. No Python code runs while the lock is held.
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn record(&self, error: PyErr) {
        let error = Arc::new(error);
        self.state().raised.get_or_insert_with(|| error.clone());
        self.any.store(true, Ordering::Relaxed);
    }

    /// Returns the exception that was raised, and removes it if no other work needs it.
    fn end(&self) -> Option<Arc<PyErr>> {
        let mut state = self.state();
        state.running -= 1;
        if state.running > 0 {
            return state.raised.clone();
        }
        self.any.store(false, Ordering::Relaxed);
        state.raised.take()
    }
}

/// A Python object that implements a kernel or a likelihood.
pub struct Own {
    name: &'static str,
    object: Py<PyAny>,
    faults: Arc<Faults>,
}

impl Own {
    fn new(object: &Bound<'_, PyAny>, faults: &Arc<Faults>) -> PyResult<Arc<Own>> {
        let name: String = object.getattr("name")?.extract()?;
        Ok(Arc::new(Own { name: lasting(name), object: object.clone().unbind(), faults: faults.clone() }))
    }

    /// Returns the result of a call that runs with the interpreter held, or `None` if an exception was
    /// raised.
    fn call<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        if self.faults.any.load(Ordering::Relaxed) {
            return None;
        }
        Python::attach(|py| call(self.object.bind(py))).map_err(|error| self.faults.record(error)).ok()
    }

    /// Combines every number of each slice with a number of the vector that a call returns for the slice. Fills the slices with NaN after an
    /// exception.
    fn fill<const N: usize>(
        &self,
        mut slices: [&mut [f64]; N],
        combine: fn(&mut f64, f64),
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<[Vector; N]>,
    ) {
        let done = self.call(|object| {
            for (slice, found) in slices.iter_mut().zip(call(object)?) {
                slice.iter_mut().zip(found.0).for_each(|(out, found)| combine(out, found));
            }
            Ok(())
        });
        if done.is_none() {
            slices.iter_mut().for_each(|slice| slice.fill(f64::NAN));
        }
    }
}

fn set(out: &mut f64, found: f64) {
    *out = found;
}

fn add(out: &mut f64, found: f64) {
    *out += found;
}

/// Returns the only copy of a name, which lives as long as the process, because the engine needs static
/// names. Programs have few of them.
fn lasting(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = locked(&NAMES);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}

/// Returns the parameters of an object for points with this number of columns, at their starting values.
fn parameters(object: &Bound<'_, PyAny>, columns: usize) -> PyResult<Vec<Parameter>> {
    type Described = (String, Vec<f64>, Option<f64>, Option<f64>, bool);
    let described: Vec<Described> = object.call_method1("_described", (columns,))?.extract()?;
    let parameter = |(name, values, lower, upper, given): Described| {
        let (lower, upper) = (lower.unwrap_or(f64::NEG_INFINITY), upper.unwrap_or(f64::INFINITY));
        // Python has checked that the range is valid.
        let transform = Transform::Identity.within(lower, upper).unwrap_or(Transform::Identity);
        Parameter { given, ..Parameter::new(&name, values, transform) }
    };
    Ok(described.into_iter().map(parameter).collect())
}

/// The value of a keyword argument.
#[derive(IntoPyObject)]
enum Value {
    Number(f64),
    Array(Vector),
}

/// Keyword arguments, in the order of the parameters.
struct Keywords<'a>(Vec<(&'a str, Value)>);

impl<'py> IntoPyObject<'py> for Keywords<'_> {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        self.0.into_py_dict(py)
    }
}

/// Returns the values of parameters as keyword arguments: a number, or an array with one number per column.
fn keywords(parameters: &[Parameter]) -> Keywords<'_> {
    let value = |values: &[f64]| match *values {
        [value] => Value::Number(value),
        ref values => Value::Array(Vector(values.to_vec())),
    };
    Keywords(parameters.iter().map(|parameter| (&*parameter.name, value(&parameter.values))).collect())
}
