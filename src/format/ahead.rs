//! What the end of a file says before anything is read: how many events to expect.
//!
//! Owns the search for the trailer in the last bytes. The figure is a promise of the writer, good for an estimate of
//! costs; what is really there is `read`'s.

use super::chunk::{Chunk, Kind, MAGIC};
use super::header::Trailer;
use crate::model::Warnings;

/// Events on all devices as the trailer in `tail`, the last bytes of a file, states them; `None` without one.
#[must_use]
pub fn stated_events(tail: &[u8]) -> Option<u64> {
    let last = tail.windows(MAGIC.len()).rposition(|window| window == MAGIC)?;
    let chunk = Chunk::parse(tail, last).ok().filter(|chunk| chunk.kind == Kind::Trailer as u64)?;
    Trailer::read(&chunk, &mut Warnings::default()).ok().map(|trailer| trailer.events())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::format::{WriteOptions, write};
    use crate::model::TraceBuilder;

    #[test]
    fn the_last_bytes_say_how_many_events_there_are() {
        let trace = TraceBuilder::new().alloc(512, 512).free(512, 512).device(1).alloc(512, 512).build();
        let mut bytes = Vec::new();
        write(&trace, &WriteOptions::default(), &mut bytes).unwrap();
        assert_eq!(stated_events(&bytes), Some(4));
        assert_eq!(stated_events(&bytes[bytes.len() / 2..]), Some(4));
        assert_eq!(stated_events(&bytes[..bytes.len() - 1]), None, "the trailer is cut");
        assert_eq!(stated_events(b"\x80\x04."), None);
    }
}
