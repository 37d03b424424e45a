//! The Python frames of a thread that has let go of the interpreter, as PyTorch's operators do before they allocate.
//!
//! Such a thread may call nothing of the interpreter that counts references or allocates, and must not wait for it. But
//! its own frames stand still while it is here, and what they hold stays alive: they are read from memory. Owns the
//! walk, and what is believed of a layout. No layout is trusted unseen: a walk that does not meet code objects alone
//! ends all such reading. Until a first walk was right, and on threads that a dying interpreter may take apart, memory
//! is read with care (`own_memory`). Where a thread holds the interpreter, this is the quicker way.

use std::ffi::{c_int, c_void};
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU8, Ordering};

use rustc_hash::FxHasher;

use crate::own_memory::{Reader, Unread, word};
use crate::python_layout::{Layout, OWNED_BY_C, Position, layout, member};
use crate::python_table::Spot;

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
    /// A [`Trust`].
    trust: AtomicU8,
}

/// What is known of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Trust {
    /// Nothing was walked yet.
    Unseen = 0,
    /// A walk met nothing but code objects.
    Right = 1,
    /// A walk met something else.
    Wrong = 2,
}

/// Why a walk gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The system refuses to read.
    Refused,
    /// There is no frame where one should be.
    Misread,
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Nothing => Self::Misread,
            Unread::Refused => Self::Refused,
        }
    }
}

/// Frames, innermost first, and their texts.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) spots: Vec<Spot>,
    /// As long as `spots`.
    pub(crate) texts: Vec<Texts>,
}

/// The parts of a code object that its meaning comes from: addresses of the texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts {
    pub(crate) file: usize,
    pub(crate) name: usize,
}

impl Memory {
    /// What holds for the interpreter of this `version` (as `Py_GetVersion` gives it).
    ///
    /// # Errors
    /// A sentence fragment, where nothing is known of it.
    ///
    /// # Safety
    /// `code_type` is the address of `PyCode_Type`, of an interpreter that is initialized.
    pub(crate) unsafe fn new(version: &str, code_type: usize) -> Result<Self, String> {
        if version.contains("free-threading") {
            return Err("a free-threaded interpreter".to_owned());
        }
        let minor = version.strip_prefix("3.").and_then(|rest| {
            rest.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|minor| minor.parse().ok())
        });
        let layout = minor.and_then(layout).ok_or("frames of this version are not known")?;
        // SAFETY: fields of a type object, whose offsets are part of the stable layout.
        unsafe {
            const BASIC_SIZE: usize = 32;
            let member = |name| {
                let offset = member(code_type, name).filter(|offset| *offset <= CODE_BYTES - 8);
                offset.ok_or("code objects of this interpreter are not known")
            };
            Ok(Self {
                layout,
                code_type,
                code_size: word(code_type + BASIC_SIZE),
                file: member(c"co_filename")?,
                name: member(c"co_name")?,
                first_line: member(c"co_firstlineno")?,
                trust: AtomicU8::new(Trust::Unseen as u8),
            })
        }
    }

    pub(crate) fn trust(&self) -> Trust {
        match self.trust.load(Ordering::Relaxed) {
            0 => Trust::Unseen,
            1 => Trust::Right,
            _ => Trust::Wrong,
        }
    }

    /// The frames of this thread, whose state is at `thread`; at most `most`. `stays`: they cannot go while this runs,
    /// since the thread holds the interpreter, or is the one that ends it.
    pub(crate) fn walk(&self, thread: usize, most: usize, stays: bool) -> Result<Walked, Failure> {
        let trust = self.trust();
        let found = match trust {
            Trust::Wrong => return Err(Failure::Misread),
            Trust::Right if stays => self.frames(thread, most, &mut Reader::Plain),
            _ => match self.with_care(thread, most) {
                // It was not refused the last time: then there is another way, if there is one.
                Err(Failure::Refused) => self.with_care(thread, most),
                other => other,
            },
        };
        if trust == Trust::Unseen {
            match &found {
                // An empty stack proves nothing.
                Ok(walked) if walked.spots.is_empty() => {}
                Ok(_) => self.trust.store(Trust::Right as u8, Ordering::Relaxed),
                Err(Failure::Misread) => self.trust.store(Trust::Wrong as u8, Ordering::Relaxed),
                Err(Failure::Refused) => {}
            }
        }
        found
    }

    /// Holds a walk against `known`, the spots that the interpreter itself gives for the same frames, which say of each
    /// what code it runs.
    pub(crate) fn prove(&self, thread: usize, known: &[Spot], most: usize) {
        if self.trust() != Trust::Unseen || known.is_empty() {
            return;
        }
        match self.with_care(thread, most) {
            Ok(walked) if walked.spots.iter().map(|spot| spot.0).eq(known.iter().map(|spot| spot.0)) => {
                self.trust.store(Trust::Right as u8, Ordering::Relaxed);
            }
            Err(Failure::Misread) => self.trust.store(Trust::Wrong as u8, Ordering::Relaxed),
            // Frames that are being set up are in one list and not in the other: the next call tells.
            Ok(_) | Err(Failure::Refused) => {}
        }
    }

    fn with_care(&self, thread: usize, most: usize) -> Result<Walked, Failure> {
        let mut reader = Reader::careful(thread).ok_or(Failure::Refused)?;
        let found = self.frames(thread, most, &mut reader);
        if found.is_ok() {
            reader.keep(thread);
        }
        found
    }

    fn frames(&self, thread: usize, most: usize, reader: &mut Reader) -> Result<Walked, Failure> {
        let layout = &self.layout;
        let mut frame = first_word(reader, thread + layout.first)?;
        if let Some(within) = layout.within.filter(|_| frame != 0) {
            frame = first_word(reader, frame + within)?;
        }
        let mut walked = Walked { spots: Vec::with_capacity(32), texts: Vec::with_capacity(32) };
        // Frames of C are steps, too: a wrong layout may lead in a circle.
        for _ in 0..2 * most {
            if frame == 0 || walked.spots.len() == most {
                break;
            }
            let [code, previous, position, owner] = match layout.position {
                Position::Index(at, _) => {
                    reader.words::<FRAME_BYTES, 4>(frame, [layout.code, layout.previous, at, at])?
                }
                Position::Pointer(at, owner) => {
                    // The word that ends with the owner, which may be the last that is there.
                    let fields = [layout.code, layout.previous, at, owner & !7];
                    reader.words::<STACK_FRAME_BYTES, 4>(frame, fields)?
                }
            };
            let is_python = match layout.position {
                Position::Index(..) => true,
                Position::Pointer(_, at) => owner.to_ne_bytes()[at & 7] < OWNED_BY_C,
            };
            if is_python {
                let (spot, texts) = self.spot(code, position, reader)?;
                walked.spots.push(spot);
                walked.texts.push(texts);
            }
            frame = previous;
        }
        Ok(walked)
    }

    /// Of a frame that runs `code`; `position` as it stands in the frame.
    fn spot(&self, code: usize, position: usize, reader: &mut Reader) -> Result<(Spot, Texts), Failure> {
        const TYPE: usize = 8;
        if code == 0 {
            return Err(Failure::Misread);
        }
        let fields = [TYPE, self.file, self.name, self.first_line];
        let [kind, file, name, first_line] = reader.words::<CODE_BYTES, 4>(code, fields)?;
        if kind != self.code_type {
            return Err(Failure::Misread);
        }
        let position = match self.layout.position {
            Position::Index(_, step) => (position as i32).saturating_mul(step),
            Position::Pointer(..) => {
                let within = position.wrapping_sub(code + self.code_size) as isize;
                i32::try_from(within).map_err(|_| Failure::Misread)?
            }
        };
        // Nothing keeps this code object alive for longer: another one at its address must not be taken for it.
        let mut stamp = FxHasher::default();
        (file, name, first_line as u32).hash(&mut stamp);
        Ok(((code, position, stamp.finish() | 1), Texts { file, name }))
    }
}

fn first_word(reader: &mut Reader, at: usize) -> Result<usize, Failure> {
    let [word] = reader.words::<8, 1>(at, [0])?;
    Ok(word)
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
