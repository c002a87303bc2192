//! Gzip: decompresses concatenated members, and accepts padding with zeros, which some media add.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// The first byte of a member.
const MEMBER: u8 = 0x1f;

/// A reader of the decompressed text of all members in `R`.
pub(super) struct Gunzip<R> {
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gunzip<R> {
    pub fn new(input: R) -> Self {
        Gunzip { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.member = match self.member.take() {
                Some(ended) => next_member(ended.into_inner())?,
                None => None,
            };
        }
        Ok(0)
    }
}

/// Skips zeros and returns the next member, if there is one.
fn next_member<R: BufRead>(mut input: R) -> io::Result<Option<GzDecoder<R>>> {
    loop {
        let ahead = input.fill_buf()?;
        match ahead.iter().position(|&byte| byte != 0) {
            _ if ahead.is_empty() => return Ok(None),
            Some(at) if ahead[at] == MEMBER => {
                input.consume(at);
                return Ok(Some(GzDecoder::new(input)));
            }
            Some(_) => {
                let what = "bytes that are not compressed follow the compressed data";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            None => {
                let zeros = ahead.len();
                input.consume(zeros);
            }
        }
    }
}
