//! SHA-256 digests as text, of bytes and of files.

use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What `hash` has come to, in hexadecimal.
pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest (SHA-256, in hexadecimal) of a file as it is.
///
/// # Errors
///
/// When the file cannot be read.
pub fn file_digest(path: &Path) -> Result<String> {
    let unreadable = |error| Error::data(format!("{}: cannot be read: {error}", path.display()));
    let mut file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(Error::data(format!("{}: is a folder, expected a file", path.display())));
    }
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => return Ok(hexadecimal(hash)),
            count => hash.update(&buffer[..count]),
        }
    }
}
