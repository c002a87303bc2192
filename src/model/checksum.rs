//! The checksum of a model file.

use crate::files::hexadecimal;
use sha2::{Digest, Sha256};

/// The SHA-256 over the description and every array's name, shape and contents, in the order of the names.
pub(super) struct Checksum(Sha256);

impl Checksum {
    /// Starts with the description. Each text and shape comes after its length, so that neighbouring parts cannot be confused.
    pub fn new(description: &str) -> Checksum {
        let mut hash = Sha256::new();
        hash.update((description.len() as u64).to_le_bytes());
        hash.update(description);
        Checksum(hash)
    }

    pub fn add(&mut self, name: &str, shape: &[usize], bytes: &[u8]) {
        self.0.update((name.len() as u64).to_le_bytes());
        self.0.update(name);
        self.0.update((shape.len() as u64).to_le_bytes());
        shape.iter().for_each(|&side| self.0.update((side as u64).to_le_bytes()));
        self.0.update(bytes);
    }

    pub fn finish(self) -> String {
        hexadecimal(self.0)
    }
}
