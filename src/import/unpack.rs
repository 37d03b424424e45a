//! Compressed files: gzip and zstd by their magic, with bounded growth.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};

use super::ReadOptions;

/// What a compressed file held.
pub(super) struct Unpacked {
    pub(super) bytes: Vec<u8>,
    /// Why there may be more: the compressed file is cut or damaged.
    pub(super) fault: Option<String>,
}

pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];
pub(super) const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Any compressed file may unpack to this much.
const FREE_BYTES: u64 = 16 << 20;
const STEP_BYTES: usize = 1 << 20;
/// Largest window that a zstd file may ask for, as a power of two.
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Unpacks `bytes`; `None` when they are not compressed.
pub(super) fn unpack(bytes: &[u8], options: &ReadOptions) -> Result<Option<Unpacked>> {
    let limit = (bytes.len() as u64).saturating_mul(options.max_unpack_ratio).saturating_add(FREE_BYTES);
    let limit = limit.min(options.max_bytes);
    if bytes.starts_with(GZIP) {
        return grow(MultiGzDecoder::new(bytes), gzip_size(bytes), limit, "gzip").map(Some);
    }
    if bytes.starts_with(ZSTD) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        let size = zstd::zstd_safe::get_frame_content_size(bytes).ok().flatten().unwrap_or(0);
        return grow(decoder, size, limit, "zstd").map(Some);
    }
    Ok(None)
}

/// The size that the end of a gzip file claims (modulo 2^32).
fn gzip_size(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |&size| u64::from(u32::from_le_bytes(size)))
}

/// Reads to the end. `claimed` saves reallocation where it is true; it is believed only as far as the
/// limit allows, and only a step ahead of what came so far is ever touched.
fn grow(mut input: impl Read, claimed: u64, limit: u64, kind: &'static str) -> Result<Unpacked> {
    let mut bytes = Vec::new();
    // An honest claim is met exactly; one byte more shows the end without growing again.
    let _ = bytes.try_reserve_exact(claimed.min(limit) as usize + STEP_BYTES);
    let mut fault = None;
    loop {
        match input.by_ref().take(STEP_BYTES as u64).read_to_end(&mut bytes) {
            Ok(0) => break,
            Ok(_) if bytes.len() as u64 > limit => {
                let what = "unpacked bytes of a compressed file";
                let value = bytes.len() as u64;
                return Err(Error::LimitExceeded { what, value, limit, offset: limit });
            }
            Ok(_) => {}
            Err(error) => {
                let offset = bytes.len();
                if offset == 0 {
                    return Err(Error::corrupt(
                        0,
                        format_args!("the {kind} file cannot be unpacked: {error}"),
                    ));
                }
                fault =
                    Some(format!("the {kind} file is cut or damaged behind unpacked byte {offset}: {error}"));
                break;
            }
        }
        if bytes.len() <= STEP_BYTES && super::sniff(&bytes) == super::Kind::Unknown {
            return Err(Error::UnknownFormat { what: format!("unpacked, {}", super::describe(&bytes)) });
        }
    }
    Ok(Unpacked { bytes, fault })
}
