//! Traces with chunks that are whole and yet cannot be decoded, for tests.

use crate::model::Warnings;

use super::chunk::{Kind, pack};
use super::codec::Codec;
use super::events_plan::EventFacts;
use super::walk::{Checksums, walk};

/// `bytes` with the payload of every chunk of events that `is_spoiled`, given number of its first event and of its
/// events, replaced by a byte that begins no value. Facts and checksums are right.
#[allow(clippy::unwrap_used)]
pub(crate) fn with_payloads_that_do_not_decode(
    bytes: &[u8],
    is_spoiled: impl Fn(u64, u64) -> bool,
) -> Vec<u8> {
    let mut warnings = Warnings::default();
    let mut result = Vec::new();
    for chunk in walk(bytes, Checksums::All, &mut warnings).chunks {
        let facts =
            (chunk.kind == Kind::Events as u64).then(|| EventFacts::read(&chunk, &mut warnings).unwrap());
        if facts.is_some_and(|facts| is_spoiled(facts.first, facts.count as u64)) {
            result.extend(pack(Kind::Events, chunk.facts, &[0xc1], Codec::None, 0).unwrap());
        } else {
            result.extend(&bytes[chunk.offset..chunk.end]);
        }
    }
    result
}
