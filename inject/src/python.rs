//! The Python frames of the calling thread, through the C API of an interpreter that is in the process.
//!
//! Owns finding that API and using it by its rules: on a thread that holds the interpreter, not while it ends,
//! every reference given back, a pending exception left as it was. A thread that has let go of it is `python_memory`'s.
//! Python 3.9 and newer.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::python_memory::{CodeLine, Memory, Texts, characters};
use crate::python_table::{Meaning, Spot};

/// Most frames that are taken.
const MAX_FRAMES: usize = 128;

type Object = *mut c_void;

/// Functions of the C API, by their own names.
struct Api {
    is_initialized: unsafe extern "C" fn() -> c_int,
    is_finalizing: unsafe extern "C" fn() -> c_int,
    holds_interpreter: unsafe extern "C" fn() -> c_int,
    this_thread: unsafe extern "C" fn() -> Object,
    current_thread: unsafe extern "C" fn() -> Object,
    frame: unsafe extern "C" fn() -> Object,
    back: unsafe extern "C" fn(Object) -> Object,
    code: unsafe extern "C" fn(Object) -> Object,
    frame_line: unsafe extern "C" fn(Object) -> c_int,
    code_line: CodeLine,
    /// Since 3.11.
    last_instruction: Option<unsafe extern "C" fn(Object) -> c_int>,
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
    text: unsafe extern "C" fn(Object, *mut isize) -> *const c_char,
    forget: unsafe extern "C" fn(Object),
    fetch: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object),
    restore: unsafe extern "C" fn(Object, Object, Object),
    /// Since 3.10: frames and strings made here must not start a collection, whose finalizers run Python.
    collector: Option<(unsafe extern "C" fn() -> c_int, unsafe extern "C" fn() -> c_int)>,
    length: unsafe extern "C" fn(Object) -> isize,
    character: unsafe extern "C" fn(Object, isize) -> u32,
    version: unsafe extern "C" fn() -> *const c_char,
    /// Address of `PyCode_Type`.
    code_type: usize,
    /// How frames are read without the interpreter, once that was asked for.
    memory: OnceLock<Option<Memory>>,
}

static API: OnceLock<Api> = OnceLock::new();
/// Files that had been loaded when the API was last looked for in vain.
static LOOKED_AT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The API, if an interpreter is in the process. `loaded` is the linker's count of loaded files.
fn api(loaded: u64) -> Option<&'static Api> {
    if API.get().is_none() && LOOKED_AT.swap(loaded, Ordering::Relaxed) != loaded {
        // SAFETY: each function is given the type that Python's headers give it.
        if let Some(found) = unsafe { find() } {
            _ = API.set(found);
        }
    }
    API.get()
}

unsafe fn symbol<T: Copy>(names: &[&CStr]) -> Option<T> {
    names.iter().find_map(|name| {
        // SAFETY: a terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: `T` is a function pointer or an address, as the only callers are in `find`.
        (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
    })
}

unsafe fn find() -> Option<Api> {
    // SAFETY: see `api`.
    unsafe {
        let disable = symbol(&[c"PyGC_Disable"]);
        let enable = symbol(&[c"PyGC_Enable"]);
        Some(Api {
            is_initialized: symbol(&[c"Py_IsInitialized"])?,
            is_finalizing: symbol(&[c"Py_IsFinalizing", c"_Py_IsFinalizing"])?,
            holds_interpreter: symbol(&[c"PyGILState_Check"])?,
            this_thread: symbol(&[c"PyGILState_GetThisThreadState"])?,
            current_thread: symbol(&[c"PyThreadState_GetUnchecked", c"_PyThreadState_UncheckedGet"])?,
            frame: symbol(&[c"PyEval_GetFrame"])?,
            back: symbol(&[c"PyFrame_GetBack"])?,
            code: symbol(&[c"PyFrame_GetCode"])?,
            frame_line: symbol(&[c"PyFrame_GetLineNumber"])?,
            code_line: symbol(&[c"PyCode_Addr2Line"])?,
            last_instruction: symbol(&[c"PyFrame_GetLasti"]),
            attribute: symbol(&[c"PyObject_GetAttrString"])?,
            text: symbol(&[c"PyUnicode_AsUTF8AndSize"])?,
            forget: symbol(&[c"Py_DecRef"])?,
            fetch: symbol(&[c"PyErr_Fetch"])?,
            restore: symbol(&[c"PyErr_Restore"])?,
            collector: disable.zip(enable),
            length: symbol(&[c"PyUnicode_GetLength"])?,
            character: symbol(&[c"PyUnicode_ReadChar"])?,
            version: symbol(&[c"Py_GetVersion"])?,
            code_type: symbol(&[c"PyCode_Type"])?,
            memory: OnceLock::new(),
        })
    }
}

/// The frames of this thread while it runs or waits in here. Give them back with [`Frames::release`].
pub(crate) struct Frames {
    api: &'static Api,
    spots: Vec<Spot>,
    /// Whether this thread holds the interpreter.
    is_held: bool,
    /// What spots mean that were read from memory.
    texts: BTreeMap<Spot, Texts>,
    /// A collection is let happen again on release.
    collects: bool,
    /// The exception that was pending.
    pending: [Object; 3],
}

impl Frames {
    /// Walks the frames; `None` where this thread runs no Python. `loaded` is the linker's count of loaded files;
    /// `is_main`: this is the process's first thread.
    pub(crate) fn here(loaded: u64, is_main: bool) -> Option<Self> {
        let api = api(loaded)?;
        // SAFETY: all calls are allowed to a thread that holds an initialized interpreter, and the first ones to any.
        unsafe {
            if (api.is_initialized)() == 0 || (api.is_finalizing)() != 0 {
                return None;
            }
            let own = (api.this_thread)();
            // `PyGILState_Check` says yes to everybody once there are sub-interpreters.
            if own.is_null() || own != (api.current_thread)() || (api.holds_interpreter)() == 0 {
                return Self::from_memory(api, own, is_main);
            }
            let collects = api.collector.is_some_and(|(disable, _)| disable() != 0);
            let mut pending = [null_mut(); 3];
            let [kind, value, trace] = &mut pending;
            (api.fetch)(kind, value, trace);
            Some(Self { api, spots: walk(api), is_held: true, texts: BTreeMap::new(), collects, pending })
        }
    }

    /// The frames of a thread that has let go of the interpreter.
    unsafe fn from_memory(api: &'static Api, own: Object, is_main: bool) -> Option<Self> {
        if own.is_null() {
            return None;
        }
        // SAFETY: the interpreter is initialized, and its version a text that stays.
        let memory = api.memory.get_or_init(|| unsafe {
            Memory::new(&CStr::from_ptr((api.version)()).to_string_lossy(), api.code_type)
        });
        let found = memory.as_ref()?.walk(own as usize, MAX_FRAMES, is_main)?;
        let spots = found.iter().map(|(spot, _)| *spot).collect();
        let texts = found.into_iter().collect();
        Some(Self { api, spots, is_held: false, texts, collects: false, pending: [null_mut(); 3] })
    }

    /// Where the frames are, innermost first.
    pub(crate) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// What a spot of these frames means.
    pub(crate) fn meaning(&self, spot: Spot) -> Meaning {
        let code = spot.0 as Object;
        if let Some(texts) = self.texts.get(&spot) {
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
        if !self.is_held {
            return;
        }
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
            (self.api.restore)(self.pending[0], self.pending[1], self.pending[2]);
            if let Some((_, enable)) = self.api.collector.filter(|_| self.collects) {
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
