//! Sums over rows with grouped effects, and derivatives with respect to them, which are passed to the holders of the rows.

use super::dataset::Dataset;
use super::stream::{DataStream, EffectSweep};
use super::sums::{BoundAdjoint, BoundGradient, Statistics, StatisticsAdjoint};
use crate::effects::{EffectSums, Effects, Moments, RowAdjoint, RowMoments};
use crate::error::Result;
use crate::gradient::Form;
use crate::latent::LatentLayer;
use serde::{Deserialize, Serialize};

/// Sums over rows with grouped effects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupedStatistics {
    /// Sums over features.
    pub(crate) statistics: Statistics,
    /// Sums by level.
    pub(crate) effects: EffectSums,
}

impl GroupedStatistics {
    /// Adds the sums over other rows.
    pub(crate) fn merge(&mut self, other: &GroupedStatistics) -> Result<()> {
        self.statistics.merge(&other.statistics)?;
        self.effects.merge(&other.effects)
    }
}

/// The derivatives of a grouped objective with respect to its sums, and the posterior moments in the gradient of every row.
#[derive(Serialize, Deserialize)]
pub(crate) struct GroupedAdjoint {
    pub by: GroupedBy,
    pub moments: Moments,
}

/// The bound that is differentiated, with its noise variance.
#[derive(Serialize, Deserialize)]
pub(crate) enum GroupedBy {
    Unweighted { adjoint: StatisticsAdjoint, form: Form, noise: f64 },
    Fitc { noise: f64 },
}

impl GroupedAdjoint {
    /// Adds the contribution of rows to a gradient.
    pub fn add_rows(
        &self,
        layer: &dyn LatentLayer,
        effects: &Effects,
        rows: Dataset<'_>,
        stream: &mut DataStream,
        gradient: &mut BoundGradient,
    ) {
        let moments = &self.moments;
        match &self.by {
            GroupedBy::Unweighted { adjoint, form, noise } => {
                let own = RowAdjoint::new(layer, effects, moments, 1.0 / noise);
                let by = BoundAdjoint::Unweighted { adjoint, form: *form };
                stream.add_rows_with(layer, rows, by, Some(EffectSweep::Unweighted(&own)), gradient);
            }
            GroupedBy::Fitc { noise } => {
                let own = EffectSweep::Fitc(RowMoments { effects, moments });
                let posterior = (&moments.weights[..], moments.covariance.as_ref());
                let by = BoundAdjoint::Fitc { noise: *noise, posterior };
                stream.add_rows_with(layer, rows, by, Some(own), gradient);
            }
        }
    }
}
