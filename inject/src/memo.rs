//! The last stack that was walked, so that the next one is walked only as far as it differs.
//!
//! A step of a walk depends on the address, the stack pointer and the frame pointer that it begins with and on the words
//! of the stack that it reads, and on nothing else while the same files are loaded. So where a walk comes to where the
//! last one was, and the words read from there on are what they were, its further steps are the last walk's. Owns that
//! comparison, which is exact; does not walk.

use framehop::UnwindRegsNative;

use crate::unwind::Addresses;

/// What a step outwards begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The return address.
    pub(crate) address: u64,
    sp: u64,
    frame_pointer: u64,
}

impl Place {
    /// `registers` are those after the step that led to `address`. No table of ELF files that the unwinder reads needs
    /// others than these; it carries them along.
    pub(crate) fn new(address: u64, registers: &UnwindRegsNative) -> Self {
        #[cfg(target_arch = "x86_64")]
        let frame_pointer = registers.bp();
        #[cfg(target_arch = "aarch64")]
        let frame_pointer = registers.fp();
        Self { address, sp: registers.sp(), frame_pointer }
    }

    pub(crate) fn registers(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.address, self.sp, self.frame_pointer)
    }
}

#[derive(Clone, Copy)]
struct Frame {
    place: Place,
    /// Where the words that this step reads end in the list of all.
    reads_end: usize,
}

/// Address and content of a word of the stack.
type Read = (u64, u64);

/// See the module's text.
#[derive(Default)]
pub(crate) struct Memo {
    /// What must be the same for all of this to mean something: the linker's counts, and the end of the stack.
    valid_for: ((u64, u64), u64),
    /// The last walk, outermost frame first; each frame's reads lie behind those of the frames around it.
    frames: Vec<Frame>,
    reads: Vec<Read>,
    /// Whether the outermost frame is the thread's first: its step reads, too, and leads nowhere.
    is_whole: bool,
    /// The walk under way, innermost frame first, as far as it is not the last one's.
    fresh: Vec<Frame>,
    fresh_reads: Vec<Read>,
    /// Frames of the last walk that lie further out than where the walk under way is.
    ahead: usize,
}

/// How the walk goes on.
pub(crate) enum Next {
    /// By a step from the frame at hand.
    Step,
    /// From here, to which the last walk has led.
    From(Place),
    /// Not at all: all frames are found.
    Done,
}

impl Memo {
    /// Begins a walk.
    pub(crate) fn begin(&mut self, generation: (u64, u64), stack_end: u64) {
        if self.valid_for != (generation, stack_end) {
            self.forget();
            self.valid_for = (generation, stack_end);
        }
        self.fresh.clear();
        self.fresh_reads.clear();
        self.ahead = self.frames.len();
    }

    /// Forgets the last walk.
    pub(crate) fn forget(&mut self) {
        self.frames.clear();
        self.reads.clear();
        self.is_whole = false;
        self.ahead = 0;
    }

    /// Notes a word that the step under way has read.
    pub(crate) fn read(&mut self, address: u64, value: u64) {
        self.fresh_reads.push((address, value));
    }

    /// Takes in where a step has led to. Frames that follow as they did the last time are put behind `found`.
    pub(crate) fn reached(&mut self, place: Place, found: &mut Addresses) -> Next {
        self.end_step();
        while self.ahead > 0 && self.frames[self.ahead - 1].place.sp < place.sp {
            self.ahead -= 1;
        }
        match self.ahead.checked_sub(1) {
            Some(at) if self.frames[at].place == place => self.follow(at, found),
            _ => {
                self.add(place);
                Next::Step
            }
        }
    }

    /// Takes in where the last step has led to that there is room for.
    pub(crate) fn cut(&mut self, place: Place) {
        self.end_step();
        self.add(place);
    }

    fn end_step(&mut self) {
        if let Some(last) = self.fresh.last_mut() {
            last.reads_end = self.fresh_reads.len();
        } else {
            // The reads of the step out of the frame that runs; that one is another each time.
            self.fresh_reads.clear();
        }
    }

    fn add(&mut self, place: Place) {
        self.fresh.push(Frame { place, reads_end: self.fresh_reads.len() });
    }

    /// Goes on from frame `at` of the last walk, for as long as its steps read what they read then.
    fn follow(&mut self, at: usize, found: &mut Addresses) -> Next {
        let mut outermost = at;
        let mut has_room = true;
        while has_room && outermost > 0 && self.reads_the_same(outermost) {
            outermost -= 1;
            has_room = found.push(self.frames[outermost].place.address as usize);
        }
        if !has_room || outermost == 0 && self.is_whole && self.reads_the_same(0) {
            self.keep(at + 1);
            return Next::Done;
        }
        // From here on it may be another stack, or the last walk did not go further.
        for frame in (outermost..=at).rev() {
            if frame > outermost {
                self.fresh_reads.extend_from_slice(&self.reads[self.reads_of(frame)]);
            }
            self.fresh.push(Frame { reads_end: self.fresh_reads.len(), ..self.frames[frame] });
        }
        self.ahead = outermost;
        Next::From(self.frames[outermost].place)
    }

    fn reads_of(&self, frame: usize) -> std::ops::Range<usize> {
        let start = if frame == 0 { 0 } else { self.frames[frame - 1].reads_end };
        start..self.frames[frame].reads_end
    }

    fn reads_the_same(&self, frame: usize) -> bool {
        self.reads[self.reads_of(frame)].iter().all(|&(address, value)| {
            // SAFETY: between the stack pointer of a frame that the walk under way has come to, and the end of this
            // thread's stack: see `Walk`.
            unsafe { (address as *const u64).read_unaligned() == value }
        })
    }

    /// The walk under way is over. `is_whole`: it came to the thread's first frame.
    pub(crate) fn end(&mut self, is_whole: bool) {
        self.end_step();
        self.is_whole = is_whole;
        self.keep(0);
    }

    /// Makes it the last walk: the outermost `count` frames stay, the fresh ones come within them.
    fn keep(&mut self, count: usize) {
        self.frames.truncate(count);
        self.reads.truncate(self.frames.last().map_or(0, |frame| frame.reads_end));
        for at in (0..self.fresh.len()).rev() {
            let start = if at == 0 { 0 } else { self.fresh[at - 1].reads_end };
            self.reads.extend_from_slice(&self.fresh_reads[start..self.fresh[at].reads_end]);
            self.frames.push(Frame { reads_end: self.reads.len(), ..self.fresh[at] });
        }
    }
}
