//! Estimates of the size of the numbers in a data file before it is read, from its footer or its
//! first lines.

use std::io::{BufReader, Read, Seek};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::format::GZIP;
use super::read::{Input, column_names};

/// The number of bytes of text to examine for the length of lines.
const SAMPLE_BYTES: usize = 8 << 20;

/// The maximum number of bytes in memory per byte of text: a number takes at least two bytes of text, with
/// its comma, and eight bytes in memory.
const BYTES_PER_TEXT_BYTE: u64 = 4;

/// The maximum compression ratio of gzip.
const MOST_COMPRESSION: u64 = 1032;

/// Estimates the numbers of rows and bytes of some columns of a file. Returns `None` if the size is unknown or certainly below `least`
/// bytes.
///
/// Parquet files state their number of rows. For text, if the size of the file alone does not decide, the lines of the first 8
/// MiB (uncompressed) are counted. Unreadable files return `None`; reading them reports the error.
pub fn large_size(
    path: &Path,
    delimiter: Option<u8>,
    wanted: &dyn Fn(&str) -> bool,
    least: u64,
) -> Option<(u64, u64)> {
    let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let input = Input::open(path).ok()?;
    let rows = match input.row_groups().ok()? {
        Some(groups) => groups.iter().map(|&rows| rows as u64).sum(),
        None => text_rows(input, size, least)?,
    };
    let columns = column_names(path, delimiter).ok()??.iter().filter(|name| wanted(name)).count() as u64;
    let bytes = rows.saturating_mul(columns).saturating_mul(8);
    (bytes >= least).then_some((rows, bytes))
}

/// Estimates the number of rows of a text file of `size` bytes; `None` if its numbers are certainly smaller than `least` bytes.
fn text_rows(input: Input, size: u64, least: u64) -> Option<u64> {
    let compressed = input.first.starts_with(GZIP);
    let most = size.saturating_mul(BYTES_PER_TEXT_BYTE * if compressed { MOST_COMPRESSION } else { 1 });
    if most < least {
        return None;
    }
    // Reads are small, so that the position in the file exceeds the decompressed bytes only slightly.
    let mut text = BufReader::with_capacity(1 << 12, input.whole);
    let (lines, ended) =
        if compressed { count_lines(&mut MultiGzDecoder::new(text))? } else { count_lines(&mut text)? };
    let share = if ended { 1.0 } else { input.file?.stream_position().ok()? as f64 / size as f64 };
    Some((lines as f64 / share.max(f64::MIN_POSITIVE)) as u64)
}

/// Returns the number of line ends in the first bytes of a text, and true if these are the whole text.
fn count_lines(text: &mut dyn Read) -> Option<(u64, bool)> {
    let (mut lines, mut seen) = (0, 0);
    let mut buffer = vec![0; 1 << 16];
    while seen < SAMPLE_BYTES {
        let read = text.read(&mut buffer).ok()?;
        if read == 0 {
            return Some((lines, true));
        }
        lines += buffer[..read].iter().filter(|&&byte| byte == b'\n').count() as u64;
        seen += read;
    }
    Some((lines, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn rows_of_text_are_estimated_within_a_few_percent() {
        // Lines of slowly growing length, 4 MB of them.
        let mut text = String::from("a,b,c\n");
        for row in 0..200_000 {
            text.push_str(&format!("{row},{}.5,{}\n", row % 7919, (row * 7) % 1013));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (plain, packed) = (folder.path().join("t.csv"), folder.path().join("t.csv.gz"));
        std::fs::write(&plain, &text).expect("written");
        let mut encoder = GzEncoder::new(File::create(&packed).expect("a file"), Compression::fast());
        encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish().map(|_| ())).expect("written");
        for path in [&plain, &packed] {
            let wanted = |name: &str| name != "b";
            let (rows, bytes) = large_size(path, None, &wanted, 1 << 18).expect("large");
            assert!((rows as f64 / 2e5 - 1.0).abs() < 0.1, "{rows}");
            assert_eq!(bytes, 16 * rows);
            assert_eq!(large_size(path, None, &wanted, 1 << 30), None);
        }
        assert_eq!(large_size(folder.path(), None, &|_| true, 0), None);
        assert_eq!(large_size(&folder.path().join("absent"), None, &|_| true, 0), None);
        let columns = folder.path().join("semicolons.csv");
        std::fs::write(&columns, "a;b,c;d\n1;2;3\n").expect("written");
        let wanted = |name: &str| name == "b,c";
        assert_eq!(large_size(&columns, Some(b';'), &wanted, 0).map(|(_, bytes)| bytes), Some(16));
    }
}
