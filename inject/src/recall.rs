//! The last walks of a thread as wholes, so that a stack that was walked lately is not walked again.
//!
//! A walk is decided by where it begins and by the words of the stack that it reads (see `memo`). So where a walk begins
//! as an earlier one did, and all words that this one read are what they were, its outcome is the earlier one's. The
//! words are looked at all at once, which takes little where the driver has left nothing in the caches: they are waited
//! for together, while each step of a walk must wait for the one before. Owns that comparison, which is exact.

use crate::memo::{Memo, Place, Read};
use crate::unwind::Addresses;

/// Walks that are known: a program's allocations and frees come from a few places at a time.
const MOST: usize = 16;
/// Words that are compared one by one first. Walks that begin alike differ near their beginning.
const INNERMOST: usize = 12;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Recall {
    /// What must be the same for all of this to mean something: the linker's counts, and the end of the stack.
    valid_for: ((u64, u64), u64),
    /// Where walks begin, by place in `walks`: looked through without touching more.
    starts: Vec<Start>,
    walks: Vec<Walked>,
    /// The one that is replaced next.
    oldest: usize,
    /// Walks that were found here.
    #[cfg(test)]
    pub(crate) hits: usize,
}

struct Start {
    place: Place,
    /// Whether the frame pointer that it begins with matters.
    has_frame_pointer: bool,
}

struct Walked {
    /// What it read, as far as that matters, innermost first.
    reads: Vec<Read>,
    found: Addresses,
    /// Its id in the file, if that is known.
    id: Option<u32>,
}

impl Recall {
    /// Where the stack of the thread ends whose walks are known; 0: nobody's.
    pub(crate) fn stack_end(&self) -> u64 {
        self.valid_for.1
    }

    /// Number of the known walk that has the outcome of one that would begin at `start`.
    ///
    /// # Safety
    /// The calling thread's stack ends at `stack_end`, and `start` has its stack pointer.
    pub(crate) unsafe fn find(
        &mut self,
        generation: (u64, u64),
        stack_end: u64,
        start: Place,
    ) -> Option<usize> {
        if self.valid_for != (generation, stack_end) {
            self.valid_for = (generation, stack_end);
            self.starts.clear();
            self.walks.clear();
            self.oldest = 0;
        }
        let mut known = self.starts.iter().zip(&self.walks);
        // SAFETY: what a walk from the same stack pointer on the same stack read lies between both.
        let is_same = |walk: &Walked| unsafe { reads_the_same(&walk.reads) };
        let found = known.position(|(begun, walk)| begun.is_as(start) && is_same(walk));
        #[cfg(test)]
        {
            self.hits += usize::from(found.is_some());
        }
        found
    }

    /// Takes in a walk that began at `start`; `memo` has what it read. To be found again while `find` is asked for the
    /// same linker's counts and stack as before, by the number that this answers.
    pub(crate) fn learn(&mut self, start: Place, memo: &Memo, found: &Addresses) -> usize {
        if self.walks.len() < MOST {
            self.starts.push(Start { place: start, has_frame_pointer: true });
            self.walks.push(Walked { reads: Vec::new(), found: Addresses::NONE, id: None });
        }
        let at = if self.oldest < self.walks.len() { self.oldest } else { 0 };
        self.oldest = (at + 1) % MOST;
        let walk = &mut self.walks[at];
        walk.reads.clear();
        let has_frame_pointer = memo.decisive_reads(&mut walk.reads);
        self.starts[at] = Start { place: start, has_frame_pointer };
        walk.found.clone_from(found);
        walk.id = None;
        at
    }

    pub(crate) fn addresses(&self, walk: usize) -> &Addresses {
        &self.walks[walk].found
    }

    pub(crate) fn id(&self, walk: usize) -> Option<u32> {
        self.walks[walk].id
    }

    pub(crate) fn learn_id(&mut self, walk: usize, id: u32) {
        self.walks[walk].id = Some(id);
    }
}

impl Start {
    fn is_as(&self, other: Place) -> bool {
        self.place.is_as(&other, self.has_frame_pointer)
    }
}

/// # Safety
/// Words lie at all of these addresses.
unsafe fn reads_the_same(reads: &[Read]) -> bool {
    // SAFETY: the caller's promise.
    let word = |address: u64| unsafe { (address as *const u64).read_unaligned() };
    let (inner, outer) = reads.split_at(reads.len().min(INNERMOST));
    // Without a branch, so that no word is waited for before the next is asked for.
    inner.iter().all(|&(address, value)| word(address) == value)
        && outer.iter().fold(0, |differing, &(address, value)| differing | (word(address) ^ value)) == 0
}
