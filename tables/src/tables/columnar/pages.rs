//! The pages of a Parquet column chunk, decompressed within the bounds that the chunk states.

use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::Result;
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::ChunkReader;
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::Bytes;

use super::cells::problem;
use super::codec::decompress;

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
