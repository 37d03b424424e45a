//! The Python frames of a thread that has let go of the interpreter, as PyTorch's operators do before they allocate.
//!
//! Such a thread may call nothing of the interpreter that counts references or allocates, and must not wait for it. But
//! its own frames stand still while it is here, and what they hold stays alive: they are read from memory. Owns the
//! layout of frames in CPython 3.9 to 3.13. No layout is trusted unseen: a walk that does not meet code objects alone
//! ends all such reading. Until a first walk was right, and on threads that a dying interpreter may take apart, memory
//! is read by the system, which answers where a plain read would crash.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU8, Ordering};

use rustc_hash::FxHasher;

use crate::python_table::Spot;

/// Where the frames of a thread begin and how they hang together; offsets in bytes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// In the thread's state: the frame, or what points to it at `within`.
    first: usize,
    within: Option<usize>,
    code: usize,
    previous: usize,
    position: Position,
}

#[derive(Clone, Copy, Debug)]
enum Position {
    /// An index: where, and how many bytes a step is.
    Index(usize, i32),
    /// A pointer into the code, which begins behind the code object's fixed part; and where the owner is said.
    Pointer(usize, usize),
}

/// Owner of a frame that stands for none of Python's.
const OWNED_BY_C: u8 = 3;

fn layout(minor: u32) -> Option<Layout> {
    use Position::{Index, Pointer};
    let (first, within, code, previous, position) = match minor {
        9 => (24, None, 32, 24, Index(104, 1)),
        10 => (24, None, 32, 24, Index(96, 2)),
        11 => (56, Some(8), 32, 48, Pointer(56, 69)),
        12 => (56, Some(0), 0, 8, Pointer(56, 70)),
        13 => (72, None, 0, 8, Pointer(56, 70)),
        _ => return None,
    };
    Some(Layout { first, within, code, previous, position })
}

/// Most bytes of a frame that are read, and how many where it lies on the interpreter's own stack: what follows may
/// not be mapped.
const FRAME_BYTES: usize = 112;
const STACK_FRAME_BYTES: usize = 72;
/// Bytes of a code object that are read.
const CODE_BYTES: usize = 144;

/// What must be known of the interpreter.
pub(crate) struct Memory {
    layout: Layout,
    /// Address of `PyCode_Type`.
    code_type: usize,
    /// Bytes of a code object before its instructions.
    code_size: usize,
    file: usize,
    name: usize,
    first_line: usize,
    /// [`UNSEEN`], [`RIGHT`] or [`WRONG`].
    trust: AtomicU8,
}

const UNSEEN: u8 = 0;
const RIGHT: u8 = 1;
const WRONG: u8 = 2;

/// The parts of a code object that its meaning comes from: addresses of the texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts {
    pub(crate) file: usize,
    pub(crate) name: usize,
}

impl Memory {
    /// What holds for the interpreter of this `version` (as `Py_GetVersion` gives it), or `None` if it is not known.
    ///
    /// # Safety
    /// `code_type` is the address of `PyCode_Type`, of an interpreter that is initialized.
    pub(crate) unsafe fn new(version: &str, code_type: usize) -> Option<Self> {
        let minor = version.strip_prefix("3.")?.split(|letter: char| !letter.is_ascii_digit()).next()?;
        if version.contains("free-threading") {
            return None;
        }
        let layout = layout(minor.parse().ok()?)?;
        // SAFETY: fields of a type object, whose offsets are part of the stable layout.
        unsafe {
            const BASIC_SIZE: usize = 32;
            let member = |name| member(code_type, name);
            Some(Self {
                layout,
                code_type,
                code_size: word(code_type + BASIC_SIZE),
                file: member(c"co_filename").filter(|offset| *offset <= CODE_BYTES - 8)?,
                name: member(c"co_name").filter(|offset| *offset <= CODE_BYTES - 8)?,
                first_line: member(c"co_firstlineno").filter(|offset| *offset <= CODE_BYTES - 8)?,
                trust: AtomicU8::new(UNSEEN),
            })
        }
    }

    /// Spots of the frames of this thread, whose state is at `thread`; at most `most`. `is_main`: the thread is the one
    /// that ends the interpreter, so its frames cannot go while it is here.
    pub(crate) fn walk(&self, thread: usize, most: usize, is_main: bool) -> Option<Vec<(Spot, Texts)>> {
        let trust = self.trust.load(Ordering::Relaxed);
        if trust == WRONG {
            return None;
        }
        let is_plain = trust == RIGHT && is_main;
        let found = self.frames(thread, most, is_plain);
        if trust == UNSEEN {
            match &found {
                // An empty stack proves nothing.
                Some(frames) if frames.is_empty() => {}
                Some(_) => self.trust.store(RIGHT, Ordering::Relaxed),
                None => self.trust.store(WRONG, Ordering::Relaxed),
            }
        }
        found
    }

    fn frames(&self, thread: usize, most: usize, is_plain: bool) -> Option<Vec<(Spot, Texts)>> {
        let layout = &self.layout;
        let mut frame = usize::from_ne_bytes(read(thread + layout.first, is_plain)?);
        if let Some(within) = layout.within.filter(|_| frame != 0) {
            frame = usize::from_ne_bytes(read(frame + within, is_plain)?);
        }
        let mut spots = Vec::with_capacity(32);
        while frame != 0 && spots.len() < most {
            let mut bytes = [0; FRAME_BYTES];
            let is_python = match layout.position {
                Position::Index(..) => {
                    bytes = read(frame, is_plain)?;
                    true
                }
                Position::Pointer(_, owner) => {
                    bytes[..STACK_FRAME_BYTES].copy_from_slice(&read::<STACK_FRAME_BYTES>(frame, is_plain)?);
                    bytes[owner] < OWNED_BY_C
                }
            };
            if is_python {
                spots.push(self.spot(&bytes, is_plain)?);
            }
            frame = word_in(&bytes, layout.previous);
        }
        Some(spots)
    }

    fn spot(&self, frame: &[u8; FRAME_BYTES], is_plain: bool) -> Option<(Spot, Texts)> {
        const TYPE: usize = 8;
        let code = word_in(frame, self.layout.code);
        let bytes: [u8; CODE_BYTES] = if code == 0 { return None } else { read(code, is_plain)? };
        if word_in(&bytes, TYPE) != self.code_type {
            return None;
        }
        let position = match self.layout.position {
            Position::Index(at, step) => (word_in(frame, at) as i32).saturating_mul(step),
            Position::Pointer(at, _) => {
                i32::try_from(word_in(frame, at).wrapping_sub(code + self.code_size) as isize).ok()?
            }
        };
        let texts = Texts { file: word_in(&bytes, self.file), name: word_in(&bytes, self.name) };
        // Nothing keeps this code object alive for longer: another one at its address must not be taken for it.
        let mut stamp = FxHasher::default();
        (texts.file, texts.name, word_in(&bytes, self.first_line) as u32).hash(&mut stamp);
        Some(((code, position, stamp.finish() | 1), texts))
    }
}

fn word_in(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| usize::from_ne_bytes(*word))
}

/// # Safety
/// A word lies there.
unsafe fn word(at: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (at as *const usize).read_unaligned() }
}

/// Offset of a member that a type declares.
///
/// # Safety
/// `class` is the address of a type object.
unsafe fn member(class: usize, name: &CStr) -> Option<usize> {
    /// `tp_members` in a type; name and offset in a `PyMemberDef`, and its length.
    const MEMBERS: usize = 240;
    const OFFSET: usize = 16;
    const LENGTH: usize = 40;
    // SAFETY: a list of definitions that ends with an empty name.
    unsafe {
        let mut at = word(class + MEMBERS);
        for _ in 0..64 {
            let own = if at == 0 { 0 } else { word(at) };
            if own == 0 {
                return None;
            }
            if CStr::from_ptr(own as *const c_char) == name {
                return Some(word(at + OFFSET));
            }
            at += LENGTH;
        }
        None
    }
}

/// Bytes at an address: as they are, or through the system, which gives nothing where there is nothing.
fn read<const N: usize>(at: usize, is_plain: bool) -> Option<[u8; N]> {
    if is_plain {
        // SAFETY: a frame or a code object of this thread, which stay while it is here.
        return Some(unsafe { (at as *const [u8; N]).read_unaligned() });
    }
    let mut bytes = [0; N];
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: N };
    let from = libc::iovec { iov_base: at as *mut c_void, iov_len: N };
    // SAFETY: the local side is the array above; the system checks the other.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    (count == N as isize).then_some(bytes)
}

/// The characters of a text, by functions that only read.
///
/// # Safety
/// `text` is a string that stays alive, and the functions are `PyUnicode_GetLength` and `PyUnicode_ReadChar`.
pub(crate) unsafe fn characters(
    text: *mut c_void,
    length: unsafe extern "C" fn(*mut c_void) -> isize,
    character: unsafe extern "C" fn(*mut c_void, isize) -> u32,
) -> String {
    const LONGEST: isize = 4096;
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise; indexes are within the length.
    unsafe {
        let length = length(text).clamp(0, LONGEST);
        (0..length).map(|at| char::from_u32(character(text, at)).unwrap_or('\u{fffd}')).collect()
    }
}

/// Type of a function that gives the line of a position in a code object.
pub(crate) type CodeLine = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let there = 7usize;
        let at = &raw const there as usize;
        assert_eq!(read::<8>(at, false), Some(7usize.to_ne_bytes()));
        assert_eq!(read::<8>(at, true), Some(7usize.to_ne_bytes()));
        assert_eq!(read::<8>(16, false), None);
    }

    #[test]
    fn unknown_versions_are_left_alone() {
        assert!(layout(8).is_none() && layout(99).is_none());
        assert!((9..=13).all(|minor| layout(minor).is_some()));
    }
}
