//! The Python frames of the calling thread, through the C API of an interpreter that is in the process.
//!
//! Owns using that API by its rules: on a thread that holds the interpreter, not while it ends,
//! every reference given back, a pending exception left as it was. A thread that has let go of it is `python_memory`'s,
//! and so is any other once that has proved to be right, for it is quicker. Python 3.9 and newer.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::own_memory;
use crate::python_api::{self, Api, Object, api};
use crate::python_memory::{Failure, Memory, Texts, Trust, Walked, characters};
use crate::python_table::{Meaning, Spot};

/// Most frames that are taken.
const MAX_FRAMES: usize = 128;

/// Whether the system refused to read frames.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
/// How frames are read without the interpreter, or why they cannot be, once that was asked for.
static MEMORY: OnceLock<Result<Memory, String>> = OnceLock::new();

/// How Python's frames are found, in the words of docs/trace-format.md; `None` while no interpreter was met.
pub(crate) fn how() -> Option<String> {
    let Some(api) = python_api::found() else {
        let lacks = |name: &CStr| format!("not possible: the interpreter has no {}", name.to_string_lossy());
        return python_api::missing().map(lacks);
    };
    let version = || {
        // SAFETY: a text that stays.
        let text = unsafe { CStr::from_ptr((api.version)()) }.to_string_lossy();
        text.split(' ').next().unwrap_or_default().to_owned()
    };
    Some(match MEMORY.get() {
        None => "api".to_owned(),
        Some(Err(reason)) => format!("api; not where the interpreter is let go: {reason} ({})", version()),
        Some(Ok(memory)) => match memory.trust() {
            Trust::Wrong => {
                format!("api; not where the interpreter is let go: frames lie elsewhere ({})", version())
            }
            _ if IS_REFUSED.load(Ordering::Relaxed) => {
                "api; not where the interpreter is let go: the system refuses to read memory".to_owned()
            }
            Trust::Right => own_memory::way().unwrap_or("memory").to_owned(),
            Trust::Unseen => "api".to_owned(),
        },
    })
}

/// Why a call has no Python frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The thread runs no Python, or the interpreter is ending.
    NoPython,
    /// There are frames, and they cannot be read.
    Unreadable,
}

/// The frames of this thread while it runs or waits in here. Give them back with [`Frames::release`].
pub(crate) struct Frames {
    api: &'static Api,
    spots: Vec<Spot>,
    /// What spots mean that were read from memory, as many.
    texts: Vec<Texts>,
    /// Where they were asked of the interpreter: what is to be set right again.
    borrowed: Option<Borrowed>,
}

/// What is changed while the interpreter is used.
struct Borrowed {
    /// A collection is let happen again on release.
    collects: bool,
    /// The exception that was pending.
    pending: [Object; 3],
}

impl Frames {
    /// Walks the frames. `loaded` is the linker's count of loaded files; `is_main`: this is the process's first thread.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn here(loaded: u64, is_main: bool) -> Result<Self, Absent> {
        let api = api(loaded).ok_or(Absent::NoPython)?;
        // SAFETY: all calls are allowed to a thread that holds an initialized interpreter, and the first ones to any.
        unsafe {
            if (api.is_initialized)() == 0 || (api.is_finalizing)() != 0 {
                return Err(Absent::NoPython);
            }
            let own = (api.this_thread)();
            if own.is_null() {
                return Err(Absent::NoPython);
            }
            // `PyGILState_Check` says yes to everybody once there are sub-interpreters.
            let is_held = own == (api.current_thread)() && (api.holds_interpreter)() != 0;
            let memory = MEMORY.get_or_init(|| {
                Memory::new(&CStr::from_ptr((api.version)()).to_string_lossy(), api.code_type)
            });
            let memory = memory.as_ref().ok();
            if is_held && memory.is_none_or(|memory| memory.trust() != Trust::Right) {
                let frames = Self::from_interpreter(api);
                if let Some(memory) = memory {
                    memory.prove(own as usize, &frames.spots, MAX_FRAMES);
                }
                return Ok(frames);
            }
            match memory.ok_or(Absent::Unreadable)?.walk(own as usize, MAX_FRAMES, is_held || is_main) {
                Ok(Walked { spots, texts }) => Ok(Self { api, spots, texts, borrowed: None }),
                Err(failure) => {
                    IS_REFUSED.fetch_or(failure == Failure::Refused, Ordering::Relaxed);
                    Err(Absent::Unreadable)
                }
            }
        }
    }

    /// # Safety
    /// This thread holds the interpreter.
    unsafe fn from_interpreter(api: &'static Api) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let collects = api.collector.is_some_and(|(disable, _)| disable() != 0);
            let mut pending = [null_mut(); 3];
            let [kind, value, trace] = &mut pending;
            (api.fetch)(kind, value, trace);
            let borrowed = Some(Borrowed { collects, pending });
            Self { api, spots: walk(api), texts: Vec::new(), borrowed }
        }
    }

    /// Where the frames are, innermost first.
    pub(crate) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// What a spot of these frames means, by its place among them.
    pub(crate) fn meaning(&self, at: usize) -> Meaning {
        let spot = self.spots[at];
        let code = spot.0 as Object;
        if let Some(texts) = self.texts.get(at) {
            // SAFETY: the frame, its code object and the texts stay while this thread is here; nothing is written.
            return unsafe {
                let text = |text| characters(text as Object, self.api.length, self.api.character);
                let line = (self.api.code_line)(code, spot.1);
                Meaning { function: text(texts.name), file: text(texts.file), line: line.max(0) as u64 }
            };
        }
        // SAFETY: the interpreter is held, and so is the code object.
        let (function, file, line) = unsafe {
            let line = match self.api.last_instruction {
                Some(_) => (self.api.code_line)(code, spot.1),
                None => spot.1,
            };
            (self.text(code, c"co_name"), self.text(code, c"co_filename"), line)
        };
        Meaning { function, file, line: line.max(0) as u64 }
    }

    unsafe fn text(&self, code: Object, name: &CStr) -> String {
        let mut length = 0;
        // SAFETY: the interpreter is held; a text lives as long as its string.
        unsafe {
            let string = (self.api.attribute)(code, name.as_ptr());
            if string.is_null() {
                return String::new();
            }
            let text = (self.api.text)(string, &raw mut length);
            let text = if text.is_null() {
                String::new()
            } else {
                let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length as usize);
                String::from_utf8_lossy(bytes).into_owned()
            };
            (self.api.forget)(string);
            text
        }
    }

    /// Gives everything back but the code objects of `kept`, one reference each.
    pub(crate) fn release(self, kept: &[Spot]) {
        let Some(borrowed) = self.borrowed else { return };
        let mut kept = kept.to_vec();
        // SAFETY: the interpreter is held; each spot owns a reference to its code.
        unsafe {
            for spot in self.spots {
                if let Some(at) = kept.iter().position(|&other| other == spot) {
                    kept.swap_remove(at);
                } else {
                    (self.api.forget)(spot.0 as Object);
                }
            }
            // Replaces what a failed look-up may have left.
            let [kind, value, trace] = borrowed.pending;
            (self.api.restore)(kind, value, trace);
            if let Some((_, enable)) = self.api.collector.filter(|_| borrowed.collects) {
                enable();
            }
        }
    }
}

/// Spots of all frames; each owns a reference to its code object.
unsafe fn walk(api: &Api) -> Vec<Spot> {
    let mut spots = Vec::with_capacity(32);
    // SAFETY: the interpreter is held; the first frame is borrowed, all others are owned.
    unsafe {
        let mut frame = (api.frame)();
        let mut is_owned = false;
        while !frame.is_null() && spots.len() < MAX_FRAMES {
            let code = (api.code)(frame);
            if !code.is_null() {
                let position = api.last_instruction.unwrap_or(api.frame_line)(frame);
                spots.push((code as usize, position, 0));
            }
            let back = (api.back)(frame);
            if is_owned {
                (api.forget)(frame);
            }
            (frame, is_owned) = (back, true);
        }
        if is_owned && !frame.is_null() {
            (api.forget)(frame);
        }
    }
    spots
}
