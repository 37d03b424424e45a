//! Reading this process's own memory where an address may be wrong.
//!
//! Owns the ways of asking the system, which answers where a plain read would crash: a pipe that is written to from the
//! address and read back from, and where there can be none, `process_vm_readv` (which costs more, and which containers
//! and small kernels refuse). Does not know what the bytes mean.

use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::own_pipe::Pipe;
use crate::walk::is_on_own_stack;

/// Why there are no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Nothing is mapped there.
    Nothing,
    /// The system does not read for us.
    Refused,
}

/// Reads for as long as one walk lasts.
pub(crate) enum Reader {
    /// As it is: the caller knows that it is there.
    Plain,
    /// By the system.
    Careful(Box<Careful>),
}

/// Reads by the system: at once what the walk before has read, since the next one reads mostly the same.
pub(crate) struct Careful {
    way: Way,
    /// Address and length of what was read at the beginning, and where in `data` it lies.
    ahead: Vec<(usize, usize, usize)>,
    /// Address and length of the pieces that were read for that, which lie in `data` one behind the other.
    pieces: Vec<(usize, usize)>,
    data: Vec<u8>,
    /// Where in `ahead` the next read is looked for first.
    next: usize,
    /// The last read that was not foreseen.
    spare: Vec<u8>,
    /// What is read by this walk.
    log: Vec<(usize, usize)>,
}

enum Way {
    Pipe(Pipe),
    System,
}

/// Bytes that are read at once, at most: half of what a pipe holds.
const MOST_AHEAD: usize = 1 << 15;

const UNKNOWN: u8 = 0;
const SYSTEM: u8 = 1;
const PIPE: u8 = 2;
const NONE: u8 = 3;

/// The way that works in this process, as far as it was tried.
static WAY: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Readers between two walks. A thread finds its own again unless many walk.
static KEPT: [AtomicPtr<Careful>; 8] = [const { AtomicPtr::new(null_mut()) }; 8];

/// Name of the way in the file; `None` where none works, or none was needed yet.
pub(crate) fn way() -> Option<&'static str> {
    match WAY.load(Ordering::Relaxed) {
        SYSTEM => Some("memory"),
        PIPE => Some("pipe"),
        _ => None,
    }
}

fn slot(thread: usize) -> &'static AtomicPtr<Careful> {
    // States of threads are some hundred bytes long.
    &KEPT[(thread >> 6 ^ thread >> 12) % KEPT.len()]
}

impl Reader {
    /// A reader that the system stands behind; `None` if it refuses. `thread` is a number that a thread keeps.
    pub(crate) fn careful(thread: usize) -> Option<Self> {
        let kept = slot(thread).swap(null_mut(), Ordering::Acquire);
        if !kept.is_null() {
            // SAFETY: it came out of a box, and whoever takes it out of its place has it alone.
            let mut kept = unsafe { Box::from_raw(kept) };
            if kept.way.is_ours() && kept.read_ahead().is_ok() {
                return Some(Self::Careful(kept));
            }
        }
        if WAY.load(Ordering::Relaxed) == UNKNOWN {
            WAY.store(working(), Ordering::Relaxed);
        }
        let way = match WAY.load(Ordering::Relaxed) {
            SYSTEM => Way::System,
            PIPE => Way::Pipe(Pipe::new()?),
            _ => return None,
        };
        Some(Self::Careful(Box::new(Careful::new(way))))
    }

    /// Keeps it for the thread's next walk. Not after an error.
    pub(crate) fn keep(self, thread: usize) {
        if let Self::Careful(careful) = self {
            let before = slot(thread).swap(Box::into_raw(careful), Ordering::AcqRel);
            if !before.is_null() {
                // SAFETY: as above.
                drop(unsafe { Box::from_raw(before) });
            }
        }
    }

    /// Words at offsets from an address, all of them within its first `N` bytes, which are all there if one is.
    pub(crate) fn words<const N: usize, const M: usize>(
        &mut self,
        at: usize,
        offsets: [usize; M],
    ) -> Result<[usize; M], Unread> {
        match self {
            // SAFETY: the caller chose this way because it knows that the bytes are there.
            Self::Plain => Ok(offsets.map(|offset| unsafe { word(at + offset) })),
            Self::Careful(careful) => {
                let bytes = careful.bytes(at, N).inspect_err(|&unread| {
                    // It may have worked until now: programs that shut themselves in do so when they are set up.
                    if unread == Unread::Refused {
                        WAY.store(UNKNOWN, Ordering::Relaxed);
                    }
                })?;
                Ok(offsets.map(|offset| word_in(bytes, offset)))
            }
        }
    }
}

/// The word at an address.
///
/// # Safety
/// A word lies there.
pub(crate) unsafe fn word(at: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (at as *const usize).read_unaligned() }
}

fn word_in(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| usize::from_ne_bytes(*word))
}

impl Careful {
    fn new(way: Way) -> Self {
        Self {
            way,
            ahead: Vec::new(),
            pieces: Vec::new(),
            data: Vec::new(),
            next: 0,
            spare: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Reads at once what the last walk has read.
    fn read_ahead(&mut self) -> Result<(), Unread> {
        let known = self.ahead.iter().map(|&(at, length, _)| (at, length));
        if !known.eq(self.log.iter().copied()) {
            self.plan();
        }
        self.log.clear();
        self.next = 0;
        if self.pieces.is_empty() {
            return Ok(());
        }
        let pieces: Vec<libc::iovec> = self.pieces.iter().map(|&(at, length)| piece(at, length)).collect();
        self.way.read(&pieces, &mut self.data)
    }

    /// Makes pieces of the log: what lies close together is one, for each costs more than its bytes.
    fn plan(&mut self) {
        const CLOSE: usize = 256;
        self.ahead = self.log.iter().map(|&(at, length)| (at, length, 0)).collect();
        self.pieces.clear();
        let mut order: Vec<usize> = (0..self.ahead.len()).collect();
        order.sort_unstable_by_key(|&index| self.ahead[index].0);
        let mut before = 0;
        for index in order {
            let (at, length, from) = &mut self.ahead[index];
            match self.pieces.last_mut() {
                Some((start, bytes)) if *at <= *start + *bytes + CLOSE => {
                    *bytes = (*bytes).max(*at + *length - *start);
                }
                last => {
                    before += last.map_or(0, |last| last.1);
                    self.pieces.push((*at, *length));
                }
            }
            let start = self.pieces.last().map_or(0, |last| last.0);
            *from = before + (*at - start);
        }
        let length: usize = self.pieces.iter().map(|piece| piece.1).sum();
        if length > MOST_AHEAD {
            self.ahead.clear();
            self.pieces.clear();
        }
        self.data.resize(length.min(MOST_AHEAD), 0);
    }

    fn bytes(&mut self, at: usize, length: usize) -> Result<&[u8], Unread> {
        if is_on_own_stack(at, length) {
            // SAFETY: see there. Frames that C runs lie on the stack.
            return Ok(unsafe { std::slice::from_raw_parts(at as *const u8, length) });
        }
        self.log.push((at, length));
        let is_it = |known: &usize| (self.ahead[*known].0, self.ahead[*known].1) == (at, length);
        if let Some(found) = (self.next..self.ahead.len()).chain(0..self.next).find(is_it) {
            self.next = found + 1;
            let from = self.ahead[found].2;
            return Ok(&self.data[from..from + length]);
        }
        self.spare.resize(length, 0);
        self.way.read(&[piece(at, length)], &mut self.spare)?;
        Ok(&self.spare)
    }
}

fn piece(at: usize, length: usize) -> libc::iovec {
    libc::iovec { iov_base: at as *mut c_void, iov_len: length }
}

impl Way {
    fn is_ours(&self) -> bool {
        match self {
            Self::Pipe(pipe) => pipe.is_ours(),
            Self::System => true,
        }
    }

    /// Reads all pieces, one behind the other. After an error it must not be used again.
    fn read(&self, pieces: &[libc::iovec], to: &mut [u8]) -> Result<(), Unread> {
        match self {
            Self::Pipe(pipe) => pipe.read(pieces, to),
            Self::System => {
                let local = piece(to.as_mut_ptr() as usize, to.len());
                // SAFETY: the local side is the slice; the system checks the other.
                let count = unsafe {
                    let count = pieces.len() as libc::c_ulong;
                    libc::process_vm_readv(libc::getpid(), &raw const local, 1, pieces.as_ptr(), count, 0)
                };
                outcome(count, to.len())
            }
        }
    }
}

/// The first way that can read what is there for certain.
fn working() -> u8 {
    static THERE: u64 = 0x6d65_6d6c_6162;
    let reads =
        |way: Way| Careful::new(way).bytes(&raw const THERE as usize, 8) == Ok(&THERE.to_ne_bytes()[..]);
    if Pipe::new().is_some_and(|pipe| reads(Way::Pipe(pipe))) {
        PIPE
    } else if reads(Way::System) {
        SYSTEM
    } else {
        NONE
    }
}

/// What a call that should have moved `wanted` bytes says.
pub(crate) fn outcome(count: isize, wanted: usize) -> Result<(), Unread> {
    match count {
        _ if count == wanted as isize => Ok(()),
        -1 if io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT) => Err(Unread::Refused),
        _ => Err(Unread::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> [Way; 2] {
        [Way::System, Way::Pipe(Pipe::new().expect("a pipe"))]
    }

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let there = Box::new(7usize);
        let at = &raw const *there as usize;
        assert_eq!(Reader::Plain.words::<8, 1>(at, [0]), Ok([7]));
        for way in ways() {
            let mut reader = Reader::Careful(Box::new(Careful::new(way)));
            assert_eq!(reader.words::<8, 1>(at, [0]), Ok([7]));
            assert_eq!(reader.words::<8, 1>(at, [0]), Ok([7]));
            assert_eq!(reader.words::<8, 1>(16, [0]), Err(Unread::Nothing));
        }
    }

    #[test]
    fn what_is_mapped_in_part_is_not_read() {
        let page = 4096;
        // SAFETY: new pages, the second of which is taken away again.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(null_mut(), 2 * page, libc::PROT_READ, flags, -1, 0);
            libc::munmap(at.byte_add(page), page);
            at as usize
        };
        for way in ways() {
            let mut careful = Careful::new(way);
            assert_eq!(careful.bytes(at + page - 64, 64), Ok(&[0; 64][..]));
            assert_eq!(careful.bytes(at + page - 64, 72), Err(Unread::Nothing));
        }
    }

    #[test]
    fn what_is_read_ahead_is_what_is_there_now() {
        for way in ways() {
            let mut careful = Careful::new(way);
            let mut values = std::hint::black_box(vec![1u64, 2, 3]);
            let at = [0, 1, 2].map(|index| &raw const values[index] as usize);
            let all =
                |careful: &mut Careful| at.map(|at| careful.bytes(at, 8).map(|bytes| word_in(bytes, 0)));
            assert_eq!(all(&mut careful), [Ok(1), Ok(2), Ok(3)]);
            std::hint::black_box(&mut values).copy_from_slice(&[4, 5, 6]);
            assert_eq!(careful.read_ahead(), Ok(()));
            assert_eq!(careful.bytes(at[2], 8), Ok(&6u64.to_ne_bytes()[..]));
            assert_eq!(all(&mut careful), [Ok(4), Ok(5), Ok(6)]);
            assert_eq!(std::hint::black_box(values).len(), 3);
            assert_eq!(careful.pieces.len(), 1);
        }
    }
}
