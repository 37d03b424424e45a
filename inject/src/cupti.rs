//! CUPTI's callbacks around functions of the driver.
//!
//! Owns the part of CUPTI's interface that is used (`cupti_callbacks.h`) and the subscription. The library is opened
//! at run time: this one links neither CUDA nor CUPTI.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute_copy;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::NO_DEVICE;
use crate::hook::{self, Hook, Returned, guarded};
use crate::params::{FUNCTIONS, Function};
use crate::{find, own_time, thread};

/// `CUPTI_CB_DOMAIN_DRIVER_API`.
const DRIVER: u32 = 1;
/// `CUPTI_API_ENTER`, `CUPTI_API_EXIT`.
const ENTER: u32 = 0;
const EXIT: u32 = 1;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const TAKEN: u32 = 39;

/// `CUpti_CallbackData`.
#[repr(C)]
struct CallbackData {
    site: u32,
    function_name: *const c_char,
    params: *const u8,
    return_value: *const u32,
    symbol_name: *const c_char,
    context: *mut c_void,
    context_uid: u32,
    correlation_data: *mut u64,
    correlation_id: u32,
}

type Callback = extern "C" fn(*mut c_void, u32, u32, *const CallbackData);

/// Functions of CUPTI, by their own names.
#[derive(Clone, Copy)]
struct Api {
    subscribe: unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> u32,
    enable: unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> u32,
    device: unsafe extern "C" fn(*mut c_void, *mut u32) -> u32,
    version: Option<unsafe extern "C" fn(*mut u32) -> u32>,
}

static API: OnceLock<Api> = OnceLock::new();
/// Counts how often contexts may have ended: what threads know of theirs is asked anew.
static CONTEXTS: AtomicU64 = AtomicU64::new(0);

/// Subscribes to the driver's calls with the first CUPTI that works.
///
/// # Errors
/// A sentence fragment that says why none does.
pub(crate) fn attach() -> Result<Hook, String> {
    let mut reasons = Vec::new();
    for candidate in find::candidates() {
        match attach_with(&candidate) {
            Ok(version) => return Ok(Hook::Cupti { library: candidate, version }),
            Err(Refusal::Missing) => {}
            Err(Refusal::Unusable(reason)) => reasons.push(format!("{}: {reason}", candidate.display())),
            Err(Refusal::Taken) => return Err("another tool in the process holds it".to_owned()),
        }
    }
    Err(if reasons.is_empty() { "no libcupti was found".to_owned() } else { reasons.join("; ") })
}

enum Refusal {
    Missing,
    Unusable(String),
    Taken,
}

fn attach_with(path: &Path) -> Result<u32, Refusal> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Refusal::Missing)?;
    // SAFETY: a terminated path; the library stays open for good.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(if path.is_absolute() && path.exists() {
            Refusal::Unusable(last_error())
        } else {
            Refusal::Missing
        });
    }
    // SAFETY: an open library.
    let api = unsafe { api(library) }.ok_or_else(|| Refusal::Unusable("functions are missing".to_owned()))?;
    let mut version = 0;
    let mut subscriber = null_mut();
    // SAFETY: CUPTI's functions with the arguments that its headers ask for.
    unsafe {
        if let Some(ask) = api.version {
            ask(&raw mut version);
        }
        match (api.subscribe)(&raw mut subscriber, callback, null_mut()) {
            0 => {}
            TAKEN => return Err(Refusal::Taken),
            error => return Err(Refusal::Unusable(format!("cuptiSubscribe gives error {error}"))),
        }
        _ = API.set(api);
        for function in FUNCTIONS {
            // An older CUPTI does not know newer functions.
            (api.enable)(1, subscriber, DRIVER, function.id);
        }
    }
    Ok(version)
}

fn last_error() -> String {
    // SAFETY: the text is copied before anything else is asked of the linker.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

unsafe fn api(library: *mut c_void) -> Option<Api> {
    unsafe fn symbol<T: Copy>(library: *mut c_void, name: &CStr) -> Option<T> {
        // SAFETY: an open library and a terminated name; `T` is the function's type by CUPTI's headers.
        unsafe {
            let found = libc::dlsym(library, name.as_ptr());
            (!found.is_null()).then(|| transmute_copy(&found))
        }
    }
    // SAFETY: as above.
    unsafe {
        Some(Api {
            subscribe: symbol(library, c"cuptiSubscribe")?,
            enable: symbol(library, c"cuptiEnableCallback")?,
            device: symbol(library, c"cuptiGetDeviceId")?,
            version: symbol(library, c"cuptiGetVersion"),
        })
    }
}

extern "C" fn callback(_: *mut c_void, domain: u32, id: u32, data: *const CallbackData) {
    let start = own_time::ticks();
    guarded(|| {
        let Some(function) = (domain == DRIVER).then(|| Function::of(id)).flatten() else { return };
        // SAFETY: CUPTI's record of this call, good during the callback.
        let data = unsafe { &*data };
        let key = (id, data.params as usize);
        match data.site {
            ENTER => hook::enter(key, function.call, start),
            EXIT => returned(function, key, data, start),
            _ => {}
        }
    });
}

fn returned(function: &Function, key: (u32, usize), data: &CallbackData, start: u64) {
    // SAFETY: at the exit CUPTI gives a result; the parameters are this function's.
    let (result, seen) = unsafe {
        let result = data.return_value.as_ref().copied().unwrap_or(u32::MAX);
        (result, function.read(data.params, result == 0))
    };
    let context = data.context as u64;
    if function.call.ends_contexts() {
        CONTEXTS.fetch_add(1, Ordering::Relaxed);
    }
    let device = if seen.device.is_some() { NO_DEVICE } else { device_of(data.context) };
    let returned = Returned { code: function.call as u8, result, seen, context: (context, device) };
    hook::leave(key, function.call, returned, start);
}

thread_local! {
    /// A context, its device, and how often contexts had ended.
    static KNOWN: Cell<(usize, u32, u64)> = const { Cell::new((0, NO_DEVICE, 0)) };
}

fn device_of(context: *mut c_void) -> u32 {
    let Some(api) = API.get().filter(|_| !context.is_null()) else { return NO_DEVICE };
    let ended = CONTEXTS.load(Ordering::Relaxed);
    let (known, device, then) = KNOWN.get();
    if (known, then) == (context as usize, ended) {
        return device;
    }
    let mut device = NO_DEVICE;
    // SAFETY: a context that CUPTI itself has just named.
    let error = thread::inside(|_| unsafe { (api.device)(context, &raw mut device) });
    if error != 0 {
        return NO_DEVICE;
    }
    KNOWN.set((context as usize, device, ended));
    device
}
