//! `fragmentation`: free memory would have sufficed, had it been in one piece.
//!
//! Two ways to notice it, one file each: a request that failed (`at_oom`), and segments obtained although enough
//! was free. This file owns the page and puts both together.

mod at_oom;
mod avoidable;

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "fragmentation",
    heading: "Free memory would have sufficed, in one piece",
    guide: Guide {
        says: "A request failed (an error), or memory was reserved that need not have been (a warning), although enough was \
            free, but in pieces that are each too small. The finding names the lines whose live blocks keep the pieces \
            apart and, after a failure, the fewest of these blocks without which the request would have been served.",
        fires: "After a failure: on an `oom` event where the request is at most the free bytes of the device plus the free \
            bytes inside segments of its pool (`reserved - active`), the device alone had too little for a new segment, \
            no free block of the same stream and pool is large enough, and the free bytes inside segments are at least \
            3 % of reserved. Under a limit on the process, what is left of the limit takes the place of the device's \
            free bytes. Without a failure: where at least 256 MiB and 5 % of the peak of reserved memory would not have \
            been needed with the free memory of each stream and pool in one piece, or in five or more segments in a row \
            that each outgrew the last.",
        why: "Before it gives up, PyTorch returns every wholly free segment to the driver; what is then still free inside \
            segments lies beside live blocks, and live blocks cannot move. Under 3 % of reserved such remainders are the \
            ordinary crumbs of any allocator (`near-capacity`). From 3 to 10 % the finding says `confidence: low`. \
            Avoidable growth below 256 MiB or 5 % is not worth a change to a program that runs.",
        needs: "An `oom` event or segment events, and either a recording from the first allocation or the final segments. \
            Lines need stacks.",
        is_not: "It is not `reserved` being far above `allocated`: cache in wholly free segments is given back on its own \
            (`idle-cache`). Free blocks of private pools (CUDA graphs) are not counted, as the request may not use them. \
            Where the driver had room and no limit stood in the way, it is not fragmentation (`driver-refused`).",
        remedy: "Free the named blocks before the large request, or allocate what lives long before what is short-lived. \
            `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` (PyTorch 2.1 and later) lets segments grow and give back \
            parts, which removes most of it; where memlab replayed the recording, the finding says what that would have \
            saved.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let found = at_oom::find(scene)?;
    // One cause is told once.
    if found.is_empty() { avoidable::find(scene) } else { Ok(found) }
}
