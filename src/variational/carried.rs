//! The state that update rules carry from step to step, as bytes for a checkpoint.

use crate::checkpoint::{decode, encode};
use crate::hyper::AdamMoments;
use crate::linalg::stored;
use faer::Mat;
use serde::{Deserialize, Serialize};

/// A part of the state of a rule.
pub(super) trait Carried {
    /// Returns the bytes of the part.
    fn save(&self) -> Vec<u8>;

    /// Takes the part from its bytes; returns false, and changes nothing, if they do not suit the rule.
    fn load(&mut self, bytes: &[u8]) -> bool;
}

/// Replaces a part by a part that was read, if there is one and it suits.
pub(super) fn replace<T>(part: &mut T, read: Option<T>, suits: impl FnOnce(&T, &T) -> bool) -> bool {
    read.filter(|read| suits(part, read)).map(|read| *part = read).is_some()
}

/// A matrix, to be stored.
#[derive(Serialize, Deserialize)]
pub(super) struct Whole(#[serde(with = "stored")] pub Mat<f64>);

impl Carried for Mat<f64> {
    fn save(&self) -> Vec<u8> {
        encode(&Whole(self.clone()))
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        let read = decode(bytes).map(|Whole(read)| read);
        replace(self, read, |own, read| own.shape() == read.shape())
    }
}

/// The length is fixed, except that of a list that is empty before the first step that needs it.
impl Carried for Vec<f64> {
    fn save(&self) -> Vec<u8> {
        encode(self)
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        replace(self, decode(bytes), |own, read| own.is_empty() || own.len() == read.len())
    }
}

impl Carried for AdamMoments {
    fn save(&self) -> Vec<u8> {
        encode(self)
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        replace(self, decode(bytes), |own, read: &AdamMoments| read.suits(own.len()))
    }
}

/// Implements `state` and `restore` of [`UpdateRule`](super::UpdateRule) for a rule that carries these fields from step to step.
macro_rules! carries {
    ($($field:ident),+) => {
        fn state(&self) -> Vec<u8> {
            $crate::checkpoint::encode(&[$($crate::variational::carried::Carried::save(&self.$field)),+][..])
        }

        fn restore(&mut self, state: &[u8]) -> bool {
            let parts: Vec<Vec<u8>> = $crate::checkpoint::decode(state).unwrap_or_default();
            let mut parts = parts.iter();
            $(parts.next().is_some_and(|part| {
                $crate::variational::carried::Carried::load(&mut self.$field, part)
            }))&&+ && parts.next().is_none()
        }
    };
}
