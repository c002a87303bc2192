//! The pages of a Parquet column chunk, decompressed within the bounds that the chunk states.

use super::cells::problem;
use ::parquet::basic::Compression;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::Result;
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::ChunkReader;
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use std::io::{self, Error, Read};
use std::sync::Arc;

/// The uncompressed pages of one chunk.
///
/// Parquet's own reader is told that nothing is compressed, so it returns pages as they are stored. Its own codecs would need a C compiler
/// for Zstandard, and trust the lengths that pages state.
pub(super) struct PlainPages<R: ChunkReader> {
    stored: SerializedPageReader<R>,
    codec: Compression,
    /// The maximum length of a page: the length of its chunk, and the largest length that the format can state.
    most: usize,
}

impl<R: ChunkReader> PlainPages<R> {
    pub(super) fn new(file: Arc<R>, chunk: &ColumnChunkMetaData, rows: usize) -> Result<Self> {
        let codec = chunk.compression();
        let most = chunk.uncompressed_size().clamp(0, i64::from(i32::MAX)) as usize;
        let stored = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        Ok(PlainPages { stored: SerializedPageReader::new(file, &stored, rows, None)?, codec, most })
    }

    /// Decompresses a page, except its first `levels` bytes.
    fn plain(&self, stored: Bytes, levels: usize) -> Result<Bytes> {
        if self.codec == Compression::UNCOMPRESSED {
            return Ok(stored);
        }
        let packed = stored.get(levels..).ok_or_else(|| problem("levels longer than their page"))?;
        let values = decompress(self.codec, packed, self.most)?;
        Ok(if levels == 0 { values.into() } else { [&stored[..levels], &values].concat().into() })
    }

    fn decompressed(&self, mut page: Page) -> Result<Page> {
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                *buf = self.plain(std::mem::take(buf), 0)?;
            }
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
                let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                if levels > buf.len() {
                    return Err(problem("levels longer than their page"));
                }
                if *is_compressed {
                    *buf = self.plain(std::mem::take(buf), levels)?;
                }
            }
        }
        Ok(page)
    }
}

impl<R: ChunkReader> Iterator for PlainPages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for PlainPages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        loop {
            match self.stored.get_next_page()? {
                // The column reader takes a page without values for the end of the chunk.
                Some(page) if page.is_data_page() && page.num_values() == 0 => {}
                page => return page.map(|page| self.decompressed(page)).transpose(),
            }
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.stored.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.stored.skip_next_page()
    }
}

/// The maximum number of bytes that LZ4 makes from one byte.
const LZ4_RATIO: usize = 255;

/// The maximum number of bytes that Snappy makes from one byte: a copy of 64 bytes takes three.
const SNAPPY_RATIO: usize = 22;

/// Returns the uncompressed bytes; fails if the data are damaged or longer than `most` bytes.
pub(super) fn decompress(codec: Compression, packed: &[u8], most: usize) -> io::Result<Vec<u8>> {
    if packed.is_empty() {
        // Empty input is empty output in every codec: writers omit the values of a page of nulls.
        return Ok(Vec::new());
    }
    match codec {
        Compression::SNAPPY => snappy(packed, most),
        Compression::GZIP(_) => drain(MultiGzDecoder::new(packed), most),
        Compression::BROTLI(_) => drain(brotli_decompressor::Decompressor::new(packed, 1 << 12), most),
        Compression::ZSTD(_) => {
            let frames = ruzstd::decoding::StreamingDecoder::new(packed).map_err(Error::other)?;
            drain(frames, most)
        }
        Compression::LZ4_RAW => lz4_block(packed, most),
        // Blocks in Hadoop's framing. Some writers stored frames or bare blocks under this name.
        Compression::LZ4 => hadoop(packed, most)
            .or_else(|_| drain(lz4_flex::frame::FrameDecoder::new(packed), most))
            .or_else(|_| lz4_block(packed, most)),
        Compression::UNCOMPRESSED | Compression::LZO => Err(Error::other("this codec is not supported")),
    }
}

fn too_long(most: usize) -> Error {
    Error::other(format!("the compressed data hold more than the {most} bytes expected"))
}

/// Reads a decoder to its end; memory grows with the data.
fn drain(decoder: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take((most as u64).saturating_add(1)).read_to_end(&mut plain)?;
    if plain.len() > most { Err(too_long(most)) } else { Ok(plain) }
}

fn snappy(packed: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let length = snap::raw::decompress_len(packed)?;
    if length > most.min(packed.len().saturating_mul(SNAPPY_RATIO)) {
        return Err(too_long(most));
    }
    Ok(snap::raw::Decoder::new().decompress_vec(packed)?)
}

/// Decompresses a block of LZ4. The block does not state its length, so the buffer is doubled until it suffices.
fn lz4_block(packed: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let most = most.min(packed.len().saturating_mul(LZ4_RATIO));
    let mut room = most.min(packed.len().saturating_mul(4));
    loop {
        let mut plain = vec![0; room];
        match lz4_flex::block::decompress_into(packed, &mut plain) {
            Ok(length) => {
                plain.truncate(length);
                return Ok(plain);
            }
            Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if room < most => {
                room = most.min(room.saturating_mul(2));
            }
            Err(error) => return Err(Error::other(error)),
        }
    }
}

/// Decompresses a sequence of LZ4 blocks, each after its uncompressed and its compressed length.
fn hadoop(mut packed: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let damaged = || Error::other("the lengths of its LZ4 blocks are damaged");
    let mut plain = Vec::new();
    while !packed.is_empty() {
        let (head, rest) = packed.split_first_chunk::<8>().ok_or_else(damaged)?;
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let (block, after) =
            rest.split_at_checked(u32::from_be_bytes([e, f, g, h]) as usize).ok_or_else(damaged)?;
        let block = lz4_block(block, length.min(most.saturating_sub(plain.len())))?;
        if block.len() != length {
            return Err(damaged());
        }
        plain.extend(block);
        packed = after;
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lz4_blocks_are_read_in_every_framing_and_never_past_the_bound() {
        let plain: Vec<u8> = (0..5000u32).flat_map(|i| (i / 700).to_le_bytes()).collect();
        // A literal run of 255·n + 15 + rest bytes, the only sequence of an incompressible block.
        let literal = |bytes: &[u8]| {
            let mut block = vec![0xf0];
            block.extend(std::iter::repeat_n(255, (bytes.len() - 15) / 255));
            block.push(((bytes.len() - 15) % 255) as u8);
            block.extend_from_slice(bytes);
            block
        };
        let block = literal(&plain);
        assert_eq!(decompress(Compression::LZ4_RAW, &block, plain.len()).expect("a block"), plain);
        assert!(decompress(Compression::LZ4_RAW, &block, plain.len() - 1).is_err());
        let framed = |part: &[u8]| {
            let block = literal(part);
            let head = [(part.len() as u32).to_be_bytes(), (block.len() as u32).to_be_bytes()].concat();
            [head, block].concat()
        };
        let two = [framed(&plain[..9000]), framed(&plain[9000..])].concat();
        for packed in [&two, &block] {
            assert_eq!(decompress(Compression::LZ4, packed, plain.len()).expect("blocks"), plain);
            assert!(decompress(Compression::LZ4, packed, plain.len() - 1).is_err());
            assert!(decompress(Compression::LZ4, &packed[..packed.len() / 2], plain.len()).is_err());
        }
        // A match of 2,000 zeros, which exceeds the first buffer.
        let zeros = [&[0x1f, 0, 1, 0][..], &[255; 7], &[196, 0x50], &[0; 5]].concat();
        assert_eq!(
            decompress(Compression::LZ4_RAW, &zeros, 1 << 20).expect("a block"),
            vec![0; 1 + 19 + 7 * 255 + 196 + 5]
        );
    }

    #[test]
    fn damage_and_bombs_are_errors() {
        let codecs = [
            Compression::SNAPPY,
            Compression::GZIP(Default::default()),
            Compression::BROTLI(Default::default()),
            Compression::ZSTD(Default::default()),
            Compression::LZ4,
            Compression::LZ4_RAW,
        ];
        for codec in codecs {
            assert!(decompress(codec, &[], 9).expect("nothing").is_empty());
            assert!(decompress(codec, &[0xff; 40], 1 << 20).is_err(), "{codec:?}");
        }
        let bomb = snap::raw::Encoder::new().compress_vec(&[7; 100_000]).expect("packed");
        assert!(decompress(Compression::SNAPPY, &bomb, 99_999).is_err());
        assert_eq!(decompress(Compression::SNAPPY, &bomb, 100_000).expect("plain").len(), 100_000);
    }
}
