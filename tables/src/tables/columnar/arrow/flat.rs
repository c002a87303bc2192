//! Tables of a FlatBuffer (flatbuffers.dev, "Internals"), with every offset checked against the buffer; no schema.

/// A table: numbered fields, each of which may be absent.
///
/// A field outside the buffer counts as absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A vector of `len` elements that begin at `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector<'a> {
    bytes: &'a [u8],
    at: usize,
    len: usize,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Returns the position that the offset at `at` points to.
fn follow(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(u32::from_le_bytes(array(bytes, at)?) as usize)
}

impl<'a> Table<'a> {
    /// Returns the root table of the buffer.
    pub(super) fn root(bytes: &'a [u8]) -> Option<Table<'a>> {
        Some(Table { bytes, at: follow(bytes, 0)? })
    }

    /// Returns the position of a field. The table begins with the distance back to the list of these positions.
    fn field(&self, index: usize) -> Option<usize> {
        let back = i32::from_le_bytes(array(self.bytes, self.at)?);
        let list = usize::try_from(self.at as i64 - i64::from(back)).ok()?;
        let size = usize::from(u16::from_le_bytes(array(self.bytes, list)?));
        let entry = 4 + 2 * index;
        if entry + 2 > size {
            return None;
        }
        match u16::from_le_bytes(array(self.bytes, list.checked_add(entry)?)?) {
            0 => None,
            offset => self.at.checked_add(usize::from(offset)),
        }
    }

    pub(super) fn u8(&self, index: usize) -> Option<u8> {
        self.bytes.get(self.field(index)?).copied()
    }

    pub(super) fn i16(&self, index: usize) -> Option<i16> {
        array(self.bytes, self.field(index)?).map(i16::from_le_bytes)
    }

    pub(super) fn i32(&self, index: usize) -> Option<i32> {
        array(self.bytes, self.field(index)?).map(i32::from_le_bytes)
    }

    pub(super) fn i64(&self, index: usize) -> Option<i64> {
        array(self.bytes, self.field(index)?).map(i64::from_le_bytes)
    }

    pub(super) fn table(&self, index: usize) -> Option<Table<'a>> {
        Some(Table { bytes: self.bytes, at: follow(self.bytes, self.field(index)?)? })
    }

    /// Returns a vector whose elements take `size` bytes; `None` if it is outside the buffer.
    pub(super) fn vector(&self, index: usize, size: usize) -> Option<Vector<'a>> {
        let start = follow(self.bytes, self.field(index)?)?;
        let len = u32::from_le_bytes(array(self.bytes, start)?) as usize;
        let at = start.checked_add(4)?;
        self.bytes.get(at..at.checked_add(len.checked_mul(size)?)?)?;
        Some(Vector { bytes: self.bytes, at, len })
    }

    pub(super) fn text(&self, index: usize) -> Option<&'a str> {
        let Vector { bytes, at, len } = self.vector(index, 1)?;
        std::str::from_utf8(bytes.get(at..at + len)?).ok()
    }
}

impl<'a> Vector<'a> {
    /// Returns the elements of a vector of tables.
    pub(super) fn tables(self) -> impl Iterator<Item = Option<Table<'a>>> {
        let Vector { bytes, at, len } = self;
        (0..len).map(move |index| Some(Table { bytes, at: follow(bytes, at + 4 * index)? }))
    }

    /// Returns the first `N` 64-bit integers of each element of a vector whose elements take `size` bytes.
    pub(super) fn integers<const N: usize>(self, size: usize) -> impl Iterator<Item = Option<[i64; N]>> {
        let Vector { bytes, at, len } = self;
        (0..len).map(move |index| {
            let mut integers = [0; N];
            for (place, integer) in integers.iter_mut().enumerate() {
                *integer = i64::from_le_bytes(array(bytes, at + size * index + 8 * place)?);
            }
            Some(integers)
        })
    }
}
