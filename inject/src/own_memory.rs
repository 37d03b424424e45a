//! Reading this process's own memory where an address may be wrong.
//!
//! Owns the ways of asking the system, which answers where a plain read would crash: `process_vm_readv`, and where that
//! is refused (containers, kernels built without it), a pipe that is written to from the address and read back from.
//! Does not know what the bytes mean.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

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
    /// By `process_vm_readv`.
    System,
    /// Through a pipe of its own. It is made for each walk: a program may close what it does not know, and the number
    /// of a file that is gone may be another file's.
    Pipe(Pipe),
}

const UNKNOWN: u8 = 0;
const SYSTEM: u8 = 1;
const PIPE: u8 = 2;
const NONE: u8 = 3;

/// The way that works in this process, as far as it was tried.
static WAY: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Name of the way in the file; `None` where none works, or none was needed yet.
pub(crate) fn way() -> Option<&'static str> {
    match WAY.load(Ordering::Relaxed) {
        SYSTEM => Some("memory"),
        PIPE => Some("pipe"),
        _ => None,
    }
}

impl Reader {
    /// A reader that the system stands behind; `None` if it refuses all of them.
    pub(crate) fn careful() -> Option<Self> {
        if WAY.load(Ordering::Relaxed) == UNKNOWN {
            WAY.store(working(), Ordering::Relaxed);
        }
        match WAY.load(Ordering::Relaxed) {
            SYSTEM => Some(Self::System),
            PIPE => Pipe::new().map(Self::Pipe),
            _ => None,
        }
    }

    /// Bytes at an address. After an error the reader must not be used again.
    pub(crate) fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], Unread> {
        let bytes = match self {
            // SAFETY: the caller chose this way because it knows that the bytes are there.
            Self::Plain => return Ok(unsafe { (at as *const [u8; N]).read_unaligned() }),
            Self::System => by_system(at),
            Self::Pipe(pipe) => pipe.bytes(at),
        };
        // It may have worked until now: programs that shut themselves in do so when they are set up.
        bytes.inspect_err(|&unread| {
            if unread == Unread::Refused {
                WAY.store(UNKNOWN, Ordering::Relaxed);
            }
        })
    }
}

/// The first way that can read what is there for certain.
fn working() -> u8 {
    let there = 0x6d65_6d6c_6162_u64;
    let (at, expected) = (&raw const there as usize, there.to_ne_bytes());
    if by_system(at) == Ok(expected) {
        SYSTEM
    } else if Pipe::new().is_some_and(|pipe| pipe.bytes(at) == Ok(expected)) {
        PIPE
    } else {
        NONE
    }
}

fn by_system<const N: usize>(at: usize) -> Result<[u8; N], Unread> {
    let mut bytes = [0; N];
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: N };
    let from = libc::iovec { iov_base: at as *mut c_void, iov_len: N };
    // SAFETY: the local side is the array above; the system checks the other.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    outcome(count, N).map(|()| bytes)
}

/// What a call that should have moved `wanted` bytes says.
fn outcome(count: isize, wanted: usize) -> Result<(), Unread> {
    match count {
        _ if count == wanted as isize => Ok(()),
        -1 if io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT) => Err(Unread::Refused),
        _ => Err(Unread::Nothing),
    }
}

/// Both ends of a pipe.
pub(crate) struct Pipe([c_int; 2]);

impl Pipe {
    fn new() -> Option<Self> {
        let mut ends = [-1; 2];
        // SAFETY: two numbers are written. Nobody waits at either end.
        let error = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
        (error == 0).then_some(Self(ends))
    }

    /// `N` is far below what a pipe takes at once, so it is taken whole or not at all.
    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], Unread> {
        let mut bytes = [0; N];
        // SAFETY: the system checks where it reads from.
        outcome(unsafe { libc::write(self.0[1], at as *const c_void, N) }, N)?;
        // SAFETY: so many bytes have room there.
        outcome(unsafe { libc::read(self.0[0], bytes.as_mut_ptr().cast(), N) }, N).map(|()| bytes)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for end in self.0 {
            // SAFETY: ours, and used by nobody else.
            unsafe { libc::close(end) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let there = 7usize;
        let at = &raw const there as usize;
        let pipe = || Reader::Pipe(Pipe::new().expect("a pipe"));
        for reader in [Reader::Plain, Reader::System, pipe()] {
            assert_eq!(reader.bytes(at), Ok(7usize.to_ne_bytes()));
            assert_eq!(reader.bytes(at), Ok(7usize.to_ne_bytes()));
        }
        for reader in [Reader::System, pipe()] {
            assert_eq!(reader.bytes::<8>(16), Err(Unread::Nothing));
        }
    }

    #[test]
    fn what_is_mapped_in_part_is_not_read() {
        let page = 4096;
        // SAFETY: new pages, the second of which is taken away again.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), 2 * page, libc::PROT_READ, flags, -1, 0);
            libc::munmap(at.byte_add(page), page);
            at as usize
        };
        for reader in [Reader::System, Reader::Pipe(Pipe::new().expect("a pipe"))] {
            assert_eq!(reader.bytes(at + page - 64), Ok([0; 64]));
            assert_eq!(reader.bytes::<72>(at + page - 64), Err(Unread::Nothing));
        }
    }
}
