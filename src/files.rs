//! Output files that appear complete or not at all, and digests of files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use sha2::{Digest, Sha256};

/// A file that is written under a temporary name in the same folder and takes its name once it is complete and on disk.
///
/// If it is dropped before [`finish`](Self::finish), it leaves nothing behind, and an older file
/// with this name stays unchanged. A device or pipe (`/dev/stdout`) is written to directly, and a
/// symbolic link is followed.
#[derive(Debug)]
pub struct AtomicFile {
    /// The file name as the caller gave it, for messages.
    given: PathBuf,
    path: PathBuf,
    out: Out,
    /// Removes the temporary name; dropped after the file itself. `None` if there is no temporary name.
    _transient: Option<Transient>,
}

enum Out {
    Temporary(BufWriter<NamedTempFile>),
    Direct(BufWriter<Box<dyn Write + Send>>),
}

/// The names that must not outlive the process: temporary files and locks.
static TRANSIENT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn transient_names() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TRANSIENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a file that must not outlive the process, as long as this value lives.
#[derive(Debug)]
pub(crate) struct Transient(PathBuf);

impl Transient {
    /// Registers the name of the file that `make` creates. After a call of
    /// [`remove_transient_files`] no file is created.
    fn new<T>(make: impl FnOnce() -> std::io::Result<(T, PathBuf)>) -> std::io::Result<(T, Transient)> {
        let mut names = transient_names();
        let (made, path) = make()?;
        names.insert(path.clone());
        Ok((made, Transient(path)))
    }

    /// Registers the name of a file that exists.
    pub(crate) fn of(path: PathBuf) -> Transient {
        transient_names().insert(path.clone());
        Transient(path)
    }
}

impl Drop for Transient {
    fn drop(&mut self) {
        transient_names().remove(&self.0);
    }
}

/// Removes the unfinished files and the locks of this process, which is about to exit while other
/// threads work. Afterwards no [`AtomicFile`] is created or finished: a thread that
/// tries waits until the process exits.
pub fn remove_transient_files() {
    let names = transient_names();
    for path in names.iter() {
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(names);
}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Out::Temporary(_)) { "Temporary" } else { "Direct" })
    }
}

impl AtomicFile {
    /// Creates the file under a temporary name.
    ///
    /// # Errors
    ///
    /// When the folder does not exist or cannot be written to, or the path is that of a folder.
    pub fn create(path: &Path) -> Result<AtomicFile> {
        let given = path.to_owned();
        // The file a link points to is replaced rather than the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let failed = |error: std::io::Error| {
            Error::data(format!("{}: cannot be written: {}", given.display(), without_path(error)))
                .hint("check that the folder exists, can be written to, and has space")
        };
        let metadata = path.metadata().ok();
        if path.is_dir() {
            let what = "is a folder, expected the name of a file";
            return Err(Error::data(format!("{}: {what}", given.display())));
        }
        if metadata.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            let file = File::options().write(true).open(&path).map_err(failed)?;
            let out = Out::Direct(BufWriter::new(Box::new(file)));
            return Ok(AtomicFile { given, path, out, _transient: None });
        }
        let folder = folder_of(&path);
        folder.metadata().map_err(failed)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".sparsegp-");
        let permissions = metadata.map(|metadata| metadata.permissions()).or_else(new_file_permissions);
        if let Some(permissions) = permissions {
            builder.permissions(permissions);
        }
        let make = || {
            let file = builder.tempfile_in(folder)?;
            let path = file.path().to_owned();
            Ok((file, path))
        };
        let (file, transient) = Transient::new(make).map_err(failed)?;
        let out = Out::Temporary(BufWriter::new(file));
        Ok(AtomicFile { given, path, out, _transient: Some(transient) })
    }

    /// Creates a file that is written directly to a stream; messages call it `name`.
    pub fn stream(name: &str, out: Box<dyn Write + Send>) -> AtomicFile {
        let out = Out::Direct(BufWriter::new(out));
        AtomicFile { given: name.into(), path: PathBuf::new(), out, _transient: None }
    }

    /// Writes a whole file.
    ///
    /// # Errors
    ///
    /// When it cannot be written, as for [`create`](Self::create) and [`finish`](Self::finish).
    pub fn write_all_to(path: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = AtomicFile::create(path)?;
        file.write_all(bytes).map_err(|error| write_error(path, &error))?;
        file.finish()
    }

    /// Writes the file to disk and gives it its final name.
    ///
    /// # Errors
    ///
    /// If the disk is full or the file cannot get its final name; nothing is left behind then.
    pub fn finish(self) -> Result<()> {
        let AtomicFile { given, path, out, _transient } = self;
        let failed = |error: std::io::Error| write_error(&given, &without_path(error));
        match out {
            Out::Direct(mut out) => out.flush().map_err(failed),
            Out::Temporary(out) => {
                let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
                file.as_file().sync_all().map_err(failed)?;
                // The lock on the names is held, so that a process that is about to exit leaves
                // either the whole file or none.
                let names = transient_names();
                let persisted = file.persist(&path);
                drop(names);
                persisted.map_err(|error| failed(error.error))?;
                sync_folder(&path);
                Ok(())
            }
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.out {
            Out::Temporary(out) => out.write(bytes).map_err(without_path),
            Out::Direct(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.out {
            Out::Temporary(out) => out.flush().map_err(without_path),
            Out::Direct(out) => out.flush(),
        }
    }
}

impl Seek for AtomicFile {
    /// Moves to a position of the file. Devices and pipes have no positions, which is an error.
    fn seek(&mut self, position: SeekFrom) -> std::io::Result<u64> {
        match &mut self.out {
            Out::Temporary(out) => out.seek(position).map_err(without_path),
            Out::Direct(_) => Err(std::io::ErrorKind::NotSeekable.into()),
        }
    }
}

/// Returns the cause of a failure without the name of the temporary file, which the user does not know.
fn without_path(error: std::io::Error) -> std::io::Error {
    if error.get_ref().is_some() { error.kind().into() } else { error }
}

/// The error for a write that failed.
pub fn write_error(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{}: writing failed: {error}", path.display()))
        .hint("check that the disk has space; no partial file was left")
}

/// The usual mode of a new file: readable by all as far as the user's mask allows. Temporary files would be private.
#[cfg(unix)]
fn new_file_permissions() -> Option<std::fs::Permissions> {
    Some(std::os::unix::fs::PermissionsExt::from_mode(0o666))
}

/// Permissions are inherited from the folder.
#[cfg(not(unix))]
fn new_file_permissions() -> Option<std::fs::Permissions> {
    None
}

/// Writes the new name to disk. The file is complete without this, so it is not an error if the
/// file system cannot do it.
fn sync_folder(path: &Path) {
    let _ = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The digest of `hash`, in hexadecimal.
pub fn hexadecimal(hash: Sha256) -> String {
    digits(&hash.finalize())
}

/// Returns bytes as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// Returns the bytes of [`digits`]; `None` for other text.
pub fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?);
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// Opens a file to read from: a regular file, or a pipe. Other files, such as devices, may have no end.
///
/// # Errors
///
/// If the file cannot be opened, or is a folder, device or socket. Messages call it `name`.
pub fn open_input(path: &Path, name: &str) -> Result<File> {
    check_input(path, name)?;
    File::open(path).map_err(|error| unreadable(name, &error))
}

/// Checks that a file can be read from, as [`open_input`] does, without opening it.
///
/// # Errors
///
/// When it does not exist, or is a folder, device or socket.
pub fn check_input(path: &Path, name: &str) -> Result<()> {
    let kind = path.metadata().map_err(|error| unreadable(name, &error))?.file_type();
    let what = match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_file() || is_pipe(kind) => return Ok(()),
        () => "a device or socket",
    };
    Err(Error::data(format!("{name}: is {what}, expected a file")))
}

fn unreadable(name: &str, error: &std::io::Error) -> Error {
    Error::data(format!("{name}: cannot be read: {error}"))
}

#[cfg(unix)]
fn is_pipe(kind: std::fs::FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&kind)
}

#[cfg(not(unix))]
fn is_pipe(_: std::fs::FileType) -> bool {
    false
}

/// Returns a digest (SHA-256, in hexadecimal) of the bytes of a file.
///
/// # Errors
///
/// When the file cannot be read.
pub fn file_digest(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let mut file = open_input(path, &name)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).map_err(|error| unreadable(&name, &error))? {
            0 => return Ok(hexadecimal(hash)),
            count => hash.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_name_appears_only_when_finished_and_nothing_else_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.json");
        let names = || fs::read_dir(folder.path()).map(|entries| entries.count()).expect("a folder");
        let mut file = AtomicFile::create(&path).expect("a file");
        file.write_all(b"half").expect("written");
        assert!(!path.exists());
        drop(file);
        assert_eq!(names(), 0);
        AtomicFile::write_all_to(&path, b"one").expect("written");
        let mut file = AtomicFile::create(&path).expect("a file");
        file.write_all(b"two").expect("written");
        assert_eq!(fs::read(&path).expect("a file"), b"one");
        file.finish().expect("finished");
        assert_eq!(fs::read(&path).expect("a file"), b"two");
        assert_eq!(names(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_an_ordinary_or_the_older_file_and_links_are_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let (path, ordinary, link) =
            (folder.path().join("out"), folder.path().join("ordinary"), folder.path().join("link"));
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode();
        fs::write(&ordinary, "").expect("written");
        AtomicFile::write_all_to(&path, b"1").expect("written");
        assert_eq!(mode(&path), mode(&ordinary));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        symlink(&path, &link).expect("a link");
        AtomicFile::write_all_to(&link, b"2").expect("written");
        assert_eq!(fs::read(&path).expect("a file"), b"2");
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let error = AtomicFile::write_all_to(Path::new("/dev/full"), b"x").expect_err("full");
        assert!(error.to_string().starts_with("/dev/full: writing failed: No space left"), "{error}");
        AtomicFile::write_all_to(Path::new("/dev/null"), b"x").expect("written");
        assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    }
}
