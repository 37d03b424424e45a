//! A pipe that bytes of this process's memory go through: a write from a wrong address is an error and no crash.
//!
//! Owns its two ends, and telling them from files of the program: a program may close what it does not know, and the
//! number is then another file's. A forked child has both ends, too, and must not use them.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::own_memory::{Unread, outcome};

/// How often this process was forked from one with a recorder.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// In a forked child: the pipes that are there are the parent's.
pub(crate) fn forget() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// See the module's text.
pub(crate) struct Pipe {
    /// Where it is read from, and where it is written to.
    ends: [c_int; 2],
    /// Device and number of the pipe among files.
    identity: (u64, u64),
    forks: u32,
}

impl Pipe {
    /// `None` where the system refuses, or there are no numbers left.
    pub(crate) fn new() -> Option<Self> {
        let mut ends = [-1; 2];
        // SAFETY: two numbers are written. Nobody waits at either end.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return None;
        }
        let mut pipe = Self { ends, identity: (0, 0), forks: FORKS.load(Ordering::Relaxed) };
        pipe.identity = identity(ends[1])?;
        Some(pipe)
    }

    /// Whether both ends are still this pipe's, in the process that made it.
    pub(crate) fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
            && self.ends.iter().all(|&end| identity(end) == Some(self.identity))
    }

    /// Reads all pieces, one behind the other. After an error there may be bytes left: it must not be used again.
    pub(crate) fn read(&self, pieces: &[libc::iovec], to: &mut [u8]) -> Result<(), Unread> {
        // SAFETY: the system checks where it reads from.
        outcome(unsafe { libc::writev(self.ends[1], pieces.as_ptr(), pieces.len() as c_int) }, to.len())?;
        // SAFETY: so many bytes have room there.
        outcome(unsafe { libc::read(self.ends[0], to.as_mut_ptr().cast(), to.len()) }, to.len())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for end in self.ends.into_iter().filter(|&end| identity(end) == Some(self.identity)) {
            // SAFETY: ours, and used by nobody else.
            unsafe { libc::close(end) };
        }
    }
}

fn identity(end: c_int) -> Option<(u64, u64)> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the record is filled where 0 is answered.
    unsafe {
        (libc::fstat(end, found.as_mut_ptr()) == 0).then(|| {
            let found = found.assume_init();
            (found.st_dev, found.st_ino)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_taken_away_is_not_used_and_not_closed() {
        let pipe = Pipe::new().expect("a pipe");
        assert!(pipe.is_ours());
        let other = Pipe::new().expect("another");
        // SAFETY: as a program might that closes what it does not know, and opens a file of its own.
        unsafe { libc::dup2(other.ends[0], pipe.ends[0]) };
        assert!(!pipe.is_ours());
        let theirs = pipe.ends[0];
        drop(pipe);
        assert_eq!(identity(theirs), Some(other.identity));
        // SAFETY: the copy that was made above.
        unsafe { libc::close(theirs) };
    }
}
