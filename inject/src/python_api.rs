//! The C API of an interpreter that is in the process.
//!
//! Owns finding it, at run time: this library does not link Python. Uses nothing of it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::python_memory::CodeLine;

/// An object of Python's.
pub(crate) type Object = *mut c_void;

/// Functions of the C API, by their own names.
pub(crate) struct Api {
    pub(crate) is_initialized: unsafe extern "C" fn() -> c_int,
    pub(crate) is_finalizing: unsafe extern "C" fn() -> c_int,
    pub(crate) holds_interpreter: unsafe extern "C" fn() -> c_int,
    pub(crate) this_thread: unsafe extern "C" fn() -> Object,
    pub(crate) current_thread: unsafe extern "C" fn() -> Object,
    pub(crate) frame: unsafe extern "C" fn() -> Object,
    pub(crate) back: unsafe extern "C" fn(Object) -> Object,
    pub(crate) code: unsafe extern "C" fn(Object) -> Object,
    pub(crate) frame_line: unsafe extern "C" fn(Object) -> c_int,
    pub(crate) code_line: CodeLine,
    /// Since 3.11.
    pub(crate) last_instruction: Option<unsafe extern "C" fn(Object) -> c_int>,
    pub(crate) attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
    pub(crate) text: unsafe extern "C" fn(Object, *mut isize) -> *const c_char,
    pub(crate) forget: unsafe extern "C" fn(Object),
    pub(crate) fetch: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object),
    pub(crate) restore: unsafe extern "C" fn(Object, Object, Object),
    /// Since 3.10: frames and strings made here must not start a collection, whose finalizers run Python.
    pub(crate) collector: Option<(unsafe extern "C" fn() -> c_int, unsafe extern "C" fn() -> c_int)>,
    pub(crate) length: unsafe extern "C" fn(Object) -> isize,
    pub(crate) character: unsafe extern "C" fn(Object, isize) -> u32,
    pub(crate) version: unsafe extern "C" fn() -> *const c_char,
    /// Address of `PyCode_Type`.
    pub(crate) code_type: usize,
}

static API: OnceLock<Api> = OnceLock::new();
/// Files that had been loaded when the API was last looked for in vain.
static LOOKED_AT: AtomicU64 = AtomicU64::new(u64::MAX);
/// What an interpreter that is there lacks.
static MISSING: OnceLock<&'static CStr> = OnceLock::new();

/// The API, if it was found already.
pub(crate) fn found() -> Option<&'static Api> {
    API.get()
}

/// A function that the interpreter in the process lacks, for want of which there is no API.
pub(crate) fn missing() -> Option<&'static CStr> {
    MISSING.get().copied()
}

/// The API, if an interpreter is in the process. `loaded` is the linker's count of loaded files.
pub(crate) fn api(loaded: u64) -> Option<&'static Api> {
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

/// A function or an address that cannot be done without.
unsafe fn needed<T: Copy>(names: &[&'static CStr]) -> Option<T> {
    // SAFETY: the caller's promise for `symbol`.
    let found = unsafe { symbol(names) };
    if found.is_none() {
        _ = MISSING.set(names[0]);
    }
    found
}

unsafe fn find() -> Option<Api> {
    // SAFETY: see `api`.
    unsafe {
        let disable = symbol(&[c"PyGC_Disable"]);
        let enable = symbol(&[c"PyGC_Enable"]);
        symbol::<usize>(&[c"Py_IsInitialized"])?;
        Some(Api {
            is_initialized: needed(&[c"Py_IsInitialized"])?,
            is_finalizing: needed(&[c"Py_IsFinalizing", c"_Py_IsFinalizing"])?,
            holds_interpreter: needed(&[c"PyGILState_Check"])?,
            this_thread: needed(&[c"PyGILState_GetThisThreadState"])?,
            current_thread: needed(&[c"PyThreadState_GetUnchecked", c"_PyThreadState_UncheckedGet"])?,
            frame: needed(&[c"PyEval_GetFrame"])?,
            back: needed(&[c"PyFrame_GetBack"])?,
            code: needed(&[c"PyFrame_GetCode"])?,
            frame_line: needed(&[c"PyFrame_GetLineNumber"])?,
            code_line: needed(&[c"PyCode_Addr2Line"])?,
            last_instruction: symbol(&[c"PyFrame_GetLasti"]),
            attribute: needed(&[c"PyObject_GetAttrString"])?,
            text: needed(&[c"PyUnicode_AsUTF8AndSize"])?,
            forget: needed(&[c"Py_DecRef"])?,
            fetch: needed(&[c"PyErr_Fetch"])?,
            restore: needed(&[c"PyErr_Restore"])?,
            collector: disable.zip(enable),
            length: needed(&[c"PyUnicode_GetLength"])?,
            character: needed(&[c"PyUnicode_ReadChar"])?,
            version: needed(&[c"Py_GetVersion"])?,
            code_type: needed(&[c"PyCode_Type"])?,
        })
    }
}
