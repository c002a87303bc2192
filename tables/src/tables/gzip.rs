//! Gzip: compressed members one after the other, which zeros may follow, as some media pad files; no tables.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// The first byte of a member.
const MEMBER: u8 = 0x1f;

/// Decompresses what `R` holds.
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

/// The member that follows, if one does.
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
