//! The state of a computation as bytes, written and read by the same code.

use faer::Mat;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest count.
pub const MOST: usize = 1 << 48;

/// The bytes of a checkpoint, which state is written to or read from.
///
/// Code with state calls the methods of an archive once for each part, in a fixed order. While an archive writes, these methods copy the
/// part to the bytes; while it reads, they replace the part. The two directions therefore cannot differ. All numbers keep every bit.
/// Bytes that do not fit leave the rest of the state unchanged, and [`Archive::is_intact`] reports them.
#[derive(Debug)]
pub struct Archive {
    bytes: Vec<u8>,
    /// The position of reading; `None` while writing.
    at: Option<usize>,
    intact: bool,
}

impl Archive {
    /// Creates an archive that collects state.
    pub fn writer() -> Archive {
        Archive { bytes: Vec::new(), at: None, intact: true }
    }

    /// Creates an archive that reads state back from `bytes`.
    pub fn reader(bytes: Vec<u8>) -> Archive {
        Archive { bytes, at: Some(0), intact: true }
    }

    /// Returns true if the archive reads, so that its contents replace the state.
    pub(crate) fn is_reading(&self) -> bool {
        self.at.is_some()
    }

    /// Returns true if every requested part was present and, when reading, no bytes are left.
    pub fn is_intact(&self) -> bool {
        self.intact && self.at.is_none_or(|at| at == self.bytes.len())
    }

    /// Marks the bytes that were read as damaged.
    pub(crate) fn refuse(&mut self) {
        self.intact = false;
    }

    /// Returns true if the parts read so far are valid.
    pub(crate) fn is_sound(&self) -> bool {
        self.intact
    }

    /// Returns the bytes that were written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes or reads any value that can be serialised.
    pub fn value<T: Serialize + DeserializeOwned>(&mut self, value: &mut T) {
        match self.at {
            None => match postcard::to_extend(value, std::mem::take(&mut self.bytes)) {
                Ok(bytes) => self.bytes = bytes,
                Err(_) => self.intact = false,
            },
            Some(at) if self.intact => match postcard::take_from_bytes(&self.bytes[at..]) {
                Ok((read, rest)) => {
                    *value = read;
                    self.at = Some(self.bytes.len() - rest.len());
                }
                Err(_) => self.intact = false,
            },
            Some(_) => {}
        }
    }

    /// Writes or reads a count of finished work. When reading, a count above `MOST` marks the bytes as
    /// damaged.
    pub fn count(&mut self, count: &mut usize) {
        self.value(count);
        if *count > MOST {
            self.intact = false;
            *count = 0;
        }
    }

    /// Writes or reads numbers whose count is fixed.
    pub fn numbers(&mut self, values: &mut [f64]) {
        let Some(at) = self.at else {
            self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            return;
        };
        let end = at + size_of_val(values);
        match self.bytes.get(at..end) {
            Some(bytes) if self.intact => {
                let (cells, _) = bytes.as_chunks::<8>();
                values.iter_mut().zip(cells).for_each(|(value, &cell)| *value = f64::from_le_bytes(cell));
                self.at = Some(end);
            }
            _ => self.intact = false,
        }
    }

    /// Writes or reads a list of any length.
    pub fn list(&mut self, values: &mut Vec<f64>) {
        let mut count = values.len() as u64;
        self.value(&mut count);
        if let Some(at) = self.at {
            // A damaged count must not request more memory than the remaining bytes can fill.
            if !self.intact || count > (self.bytes.len() - at) as u64 / 8 {
                self.intact = false;
                return;
            }
            values.resize(count as usize, 0.0);
        }
        self.numbers(values);
    }

    /// Writes or reads a matrix of a known size.
    pub fn matrix(&mut self, matrix: &mut Mat<f64>) {
        (0..matrix.ncols()).for_each(|j| self.numbers(matrix.col_as_slice_mut(j)));
    }

    /// Writes or reads bytes of any length.
    pub(crate) fn blob(&mut self, blob: &mut Vec<u8>) {
        let mut length = blob.len() as u64;
        self.value(&mut length);
        let Some(at) = self.at else {
            self.bytes.extend_from_slice(blob);
            return;
        };
        if !self.intact || length > (self.bytes.len() - at) as u64 {
            self.intact = false;
            return;
        }
        let end = at + length as usize;
        blob.clear();
        blob.extend_from_slice(&self.bytes[at..end]);
        self.at = Some(end);
    }

    /// Writes or reads a part that may be absent. When reading, `make` creates the value to fill.
    pub fn option<T>(
        &mut self,
        option: &mut Option<T>,
        make: impl FnOnce() -> T,
        part: impl FnOnce(&mut T, &mut Archive),
    ) {
        let mut present = option.is_some();
        self.value(&mut present);
        if !present {
            *option = None;
        } else {
            part(option.get_or_insert_with(make), self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct State {
        name: String,
        numbers: [f64; 3],
        list: Vec<f64>,
        matrix: Mat<f64>,
        maybe: Option<Vec<f64>>,
    }

    impl State {
        fn pass(&mut self, archive: &mut Archive) {
            archive.value(&mut self.name);
            archive.numbers(&mut self.numbers);
            archive.list(&mut self.list);
            archive.matrix(&mut self.matrix);
            archive.option(&mut self.maybe, Vec::new, |list, archive| archive.list(list));
        }

        fn bytes(&mut self) -> Vec<u8> {
            let mut archive = Archive::writer();
            self.pass(&mut archive);
            assert!(archive.is_intact());
            archive.into_bytes()
        }
    }

    fn full() -> State {
        State {
            name: "a".into(),
            numbers: [f64::NAN, -0.0, f64::MIN_POSITIVE / 8.0],
            list: vec![1.0, f64::NEG_INFINITY],
            matrix: Mat::from_fn(2, 3, |i, j| (i * 10 + j) as f64),
            maybe: Some(vec![0.1]),
        }
    }

    fn empty() -> State {
        State { name: String::new(), numbers: [0.0; 3], list: vec![], matrix: Mat::zeros(2, 3), maybe: None }
    }

    #[test]
    fn state_comes_back_to_the_last_bit() {
        let bytes = full().bytes();
        let mut state = empty();
        let mut archive = Archive::reader(bytes.clone());
        state.pass(&mut archive);
        assert!(archive.is_intact());
        assert_eq!(state.bytes(), bytes);
        assert_eq!(state.numbers[0].to_bits(), f64::NAN.to_bits());
    }

    #[test]
    fn bytes_that_do_not_fit_are_reported() {
        let bytes = full().bytes();
        for length in 0..bytes.len() {
            let mut archive = Archive::reader(bytes[..length].to_vec());
            empty().pass(&mut archive);
            assert!(!archive.is_intact(), "{length} of {} bytes", bytes.len());
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        let mut archive = Archive::reader(longer);
        empty().pass(&mut archive);
        assert!(!archive.is_intact());
    }

    #[test]
    fn a_count_beyond_the_bytes_requests_no_memory() {
        let mut archive = Archive::writer();
        archive.value(&mut (u64::MAX / 16));
        let mut archive = Archive::reader(archive.into_bytes());
        let mut list = Vec::new();
        archive.list(&mut list);
        assert!(!archive.is_intact() && list.is_empty());
    }
}
