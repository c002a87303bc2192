//! The nearest points of one query so far, in order.

/// The maximum initial capacity of a list, because a caller may request more points than there are.
const LONGEST: usize = 1024;

/// At most `most` points with their squared distances, nearest first; equally near points are in
/// the order of their indices.
pub(super) struct Nearest {
    most: usize,
    found: Vec<(f64, u32)>,
}

impl Nearest {
    pub fn new(most: usize) -> Self {
        Nearest { most, found: Vec::with_capacity(most.min(LONGEST)) }
    }

    /// Returns the squared distance below which a point is added.
    #[inline(always)]
    pub(crate) fn farthest(&self) -> f64 {
        match self.found.last() {
            Some(&(distance, _)) if self.found.len() == self.most => distance,
            _ if self.most == 0 => f64::NEG_INFINITY,
            _ => f64::INFINITY,
        }
    }

    /// Adds a point nearer than the farthest, and replaces that one if the list is full.
    #[inline]
    pub fn take(&mut self, distance: f64, point: u32) {
        if self.found.len() == self.most {
            self.found.pop();
        }
        let farther =
            |&&(other, index): &&(f64, u32)| other > distance || (other == distance && index > point);
        let at = self.found.len() - self.found.iter().rev().take_while(farther).count();
        self.found.insert(at, (distance, point));
    }

    /// Returns the points, nearest first.
    pub fn points(&self) -> Vec<u32> {
        self.found.iter().map(|&(_, point)| point).collect()
    }
}
