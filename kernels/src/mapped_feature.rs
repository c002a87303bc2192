//! Random features of kernels of mapped points.

use crate::mapped::InputMap;
use crate::random_feature::RandomFeature;
use faer::{MatMut, MatRef};

/// A random feature of mapped points.
pub(crate) struct MappedFeature<M> {
    pub map: M,
    /// The number of columns of mapped points.
    pub width: usize,
    pub inner: Box<dyn RandomFeature>,
}

impl<M: InputMap> MappedFeature<M> {
    fn mapped(&self, x: &[f64]) -> Vec<f64> {
        let mut to = vec![0.0; self.width];
        self.map.map(MatRef::from_column_major_slice(x, 1, x.len()), &mut to);
        to
    }
}

impl<M: InputMap> RandomFeature for MappedFeature<M> {
    fn value(&self, x: &[f64]) -> f64 {
        self.inner.value(&self.mapped(x))
    }

    fn add_gradient(&self, x: &[f64], weight: f64, gradient: &mut [f64]) {
        let mut bar = vec![0.0; self.width];
        self.inner.add_gradient(&self.mapped(x), weight, &mut bar);
        let point = MatRef::from_column_major_slice(x, 1, x.len());
        let target = MatMut::from_column_major_slice_mut(gradient, 1, x.len());
        self.map.pull_back(point, &bar, Some(target), &mut []);
    }
}
