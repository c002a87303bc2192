//! Adam's running moments of a gradient (Kingma & Ba 2015); one vector, one step, no problem.

use crate::checkpoint::Archive;
use serde::{Deserialize, Serialize};

/// First and second moments with bias correction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
    count: i32,
}

impl Moments {
    const DECAY: (f64, f64) = (0.9, 0.999);
    const EPSILON: f64 = 1e-8;

    /// Zero moments for `n` numbers.
    pub fn new(n: usize) -> Self {
        Moments { first: vec![0.0; n], second: vec![0.0; n], count: 0 }
    }

    /// Takes in `gradient` and moves `x` by Adam's step with learning rate `rate`.
    pub fn step(&mut self, x: &mut [f64], gradient: &[f64], rate: f64) {
        self.count = self.count.saturating_add(1);
        let (b1, b2) = Self::DECAY;
        let (c1, c2) = (1.0 - b1.powi(self.count), 1.0 - b2.powi(self.count));
        let moments = self.first.iter_mut().zip(self.second.iter_mut());
        for ((x, g), (m, v)) in x.iter_mut().zip(gradient).zip(moments) {
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * g * g;
            *x -= rate * (*m / c1) / ((*v / c2).sqrt() + Self::EPSILON);
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Passes the moments through an archive; their number stays.
    pub fn archive(&mut self, archive: &mut Archive) {
        archive.numbers(&mut self.first);
        archive.numbers(&mut self.second);
        archive.value(&mut self.count);
    }

    /// Forgets everything, as after a roll-back.
    pub fn reset(&mut self) {
        self.first.fill(0.0);
        self.second.fill(0.0);
        self.count = 0;
    }
}
