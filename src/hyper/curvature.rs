//! The curvature model of L-BFGS: its last steps with the changes of the gradient, and the search
//! direction.

use super::trials::Point;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A step with the change of the gradient along it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
    /// `1 / yᵀs`.
    rho: f64,
}

/// The inverse Hessian, estimated from the latest steps (Nocedal & Wright 2006, section 7.2).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InverseHessian {
    /// The stored steps, from the oldest to the latest.
    pairs: VecDeque<Pair>,
    /// `γ = sᵀy / yᵀy` of the latest pair, or 1 without pairs; the recursion starts from the inverse Hessian `γ I` (equation 7.20).
    gamma: f64,
}

impl InverseHessian {
    /// The identity.
    pub fn identity() -> Self {
        InverseHessian { pairs: VecDeque::new(), gamma: 1.0 }
    }

    /// Adds a step; at most `memory` steps are stored, and the last one always is.
    pub(crate) fn learn(&mut self, from: &Point, to: &Point, memory: usize) {
        while self.pairs.len() >= memory.max(1) {
            self.pairs.pop_front();
        }
        let (s, y) = (difference(&to.theta, &from.theta), difference(&to.gradient, &from.gradient));
        let sy = dot(&s, &y);
        self.gamma = sy / dot(&y, &y);
        self.pairs.push_back(Pair { s, y, rho: 1.0 / sy });
    }

    /// Returns the search direction `−H g` for the gradient g and the estimated inverse Hessian H, by the two-loop recursion (algorithm 7.4).
    pub(crate) fn descent(&self, gradient: &[f64]) -> Vec<f64> {
        let mut r = gradient.to_vec();
        let mut alpha = vec![0.0; self.pairs.len()];
        for (Pair { s, y, rho }, alpha) in self.pairs.iter().zip(&mut alpha).rev() {
            *alpha = dot(s, &r) * rho;
            r.iter_mut().zip(y).for_each(|(r, y)| *r -= y * *alpha);
        }
        r.iter_mut().for_each(|r| *r *= self.gamma);
        for (Pair { s, y, rho }, alpha) in self.pairs.iter().zip(&alpha) {
            let beta = dot(y, &r) * rho;
            r.iter_mut().zip(s).for_each(|(r, s)| *r += s * (alpha - beta));
        }
        r.iter_mut().for_each(|r| *r = -*r);
        r
    }

    /// Returns true if it has vectors of `n` numbers, and at most `memory` steps.
    pub(crate) fn suits(&self, n: usize, memory: usize) -> bool {
        self.pairs.len() <= memory.max(1)
            && self.pairs.iter().all(|pair| pair.s.len() == n && pair.y.len() == n)
    }
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
