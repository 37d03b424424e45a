//! The return addresses of the calling thread.
//!
//! Owns the walk over frames, by the unwind tables that compilers write for exceptions (frame pointers are rarely
//! there). Does not know which module an address belongs to.

use std::ffi::c_void;

/// Most addresses that are taken, the recorder's own frames included.
pub(crate) const MAX_ADDRESSES: usize = 80;

/// Addresses, innermost first.
#[derive(Clone)]
pub(crate) struct Addresses {
    values: [usize; MAX_ADDRESSES],
    length: usize,
}

impl Default for Addresses {
    fn default() -> Self {
        Self::NONE
    }
}

impl Addresses {
    /// No address at all.
    pub(crate) const NONE: Self = Self { values: [0; MAX_ADDRESSES], length: 0 };

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Walks the calling thread's frames, this function's own among them.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let mut found = Self::NONE;
        // SAFETY: the callback gets the pointer handed over here, which outlives the walk.
        unsafe { _Unwind_Backtrace(step, (&raw mut found).cast()) };
        found
    }

    /// Appends an address. Answers whether there is room for another.
    pub(crate) fn push(&mut self, address: usize) -> bool {
        if self.length < MAX_ADDRESSES {
            self.values[self.length] = address;
            self.length += 1;
        }
        self.length < MAX_ADDRESSES
    }

    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.values[..self.length]
    }
}

const GO_ON: i32 = 0;
const STOP: i32 = 5;

#[link(name = "gcc_s")]
unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

extern "C" fn step(context: *mut c_void, found: *mut c_void) -> i32 {
    // SAFETY: `found` is what `here` handed over, `context` is the unwinder's.
    let (found, address) = unsafe { (&mut *found.cast::<Addresses>(), _Unwind_GetIP(context)) };
    if address != 0 && found.push(address) { GO_ON } else { STOP }
}
