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

    pub(crate) fn has_frame_pointer_of(&self, other: &Self) -> bool {
        self.frame_pointer == other.frame_pointer
    }

    /// Whether a walk that begins here begins as one that began at `other`, for all that the frame pointer `matters`.
    pub(crate) fn is_as(&self, other: &Self, matters: bool) -> bool {
        (self.address, self.sp) == (other.address, other.sp)
            && (!matters || self.frame_pointer == other.frame_pointer)
    }

    /// The registers with another frame pointer, each bit of which is another.
    pub(crate) fn with_other_frame_pointer(registers: &UnwindRegsNative) -> UnwindRegsNative {
        let mut other = *registers;
        #[cfg(target_arch = "x86_64")]
        other.set_bp(!registers.bp());
        #[cfg(target_arch = "aarch64")]
        other.set_fp(!registers.fp());
        other
    }

    pub(crate) fn registers(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.address, self.sp, self.frame_pointer)
    }
}

/// What a step outwards does with the frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Where it leads depends on it, or nobody knows.
    Leads,
    /// Nothing but that the caller has the same.
    Passes,
    /// Nothing: the caller's is read from the stack, by the step's read of this number, if that is known.
    Restores(Option<usize>),
}

#[derive(Clone, Copy)]
struct Frame {
    place: Place,
    usage: Use,
    /// Where the words that this step reads end in the list of all.
    reads_end: usize,
}

/// Address and content of a word of the stack.
pub(crate) type Read = (u64, u64);

/// See the module's text.
#[derive(Default)]
pub(crate) struct Memo {
    /// What must be the same for all of this to mean something: the linker's counts, and the end of the stack.
    valid_for: ((u64, u64), u64),
    /// The last walk, outermost frame first; each frame's reads lie behind those of the frames around it.
    frames: Vec<Frame>,
    reads: Vec<Read>,
    /// What the step out of the frame that runs has read.
    first_reads: Vec<Read>,
    first_usage: Option<Use>,
    /// What the step under way does.
    usage: Option<Use>,
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

    /// Says what the step under way does with the frame pointer.
    pub(crate) fn uses(&mut self, usage: Use) {
        self.usage = Some(usage);
    }

    /// Which of the words that the step under way has read is the frame pointer of `place`, where it read nothing else
    /// but its return address.
    pub(crate) fn frame_pointer_read(&self, place: &Place) -> Option<usize> {
        let start = self.fresh.last().map_or(0, |frame| frame.reads_end);
        let mut others =
            self.fresh_reads[start..].iter().enumerate().filter(|(_, read)| read.1 != place.address);
        let (at, read) = others.next()?;
        (others.next().is_none() && read.1 == place.frame_pointer).then_some(at)
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
        let usage = self.usage.take();
        if let Some(last) = self.fresh.last_mut() {
            last.reads_end = self.fresh_reads.len();
            last.usage = usage.unwrap_or(last.usage);
        } else {
            self.first_usage = usage;
            // The reads of the step out of the frame that runs: no frame that is remembered.
            std::mem::swap(&mut self.first_reads, &mut self.fresh_reads);
            self.fresh_reads.clear();
        }
    }

    fn add(&mut self, place: Place) {
        self.fresh.push(Frame { place, usage: Use::Leads, reads_end: self.fresh_reads.len() });
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

    /// What the last walk has read, and what a walk before has read further out, innermost first, into `reads`: without
    /// frame pointers that led nowhere, for programs keep data in that register. Answers whether the one that the walk
    /// began with matters.
    pub(crate) fn decisive_reads(&self, reads: &mut Vec<Read>) -> bool {
        let mut matters = false;
        let mut add = |step: &[Read], usage| {
            let idle = match usage {
                Use::Restores(read) if !matters => read,
                _ => None,
            };
            reads.extend(
                step.iter().enumerate().rev().filter(|(at, _)| Some(*at) != idle).map(|(_, read)| *read),
            );
            matters = match usage {
                Use::Leads => true,
                Use::Passes => matters,
                Use::Restores(_) => false,
            };
        };
        for (at, frame) in self.frames.iter().enumerate() {
            add(&self.reads[self.reads_of(at)], frame.usage);
        }
        add(&self.first_reads, self.first_usage.unwrap_or(Use::Leads));
        reads.reverse();
        matters
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
