//! Where CPython keeps its frames.
//!
//! Owns the layout of frames in CPython 3.9 to 3.13, and the look-up of offsets that types declare themselves. Believes
//! nothing of it: see `python_memory`.

use std::ffi::{CStr, c_char};

use crate::own_memory::word;

/// Where the frames of a thread begin and how they hang together; offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// In the thread's state: the frame, or what points to it at `within`.
    pub(crate) first: usize,
    pub(crate) within: Option<usize>,
    /// In a frame: its code, the one around it, and where in the code it is.
    pub(crate) code: usize,
    pub(crate) previous: usize,
    pub(crate) position: Position,
}

/// How a frame says where in its code it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position {
    /// An index: where, and how many bytes a step is.
    Index(usize, i32),
    /// A pointer into the code, which begins behind the code object's fixed part; and where the owner is said.
    Pointer(usize, usize),
}

/// Owner of a frame that stands for none of Python's.
pub(crate) const OWNED_BY_C: u8 = 3;

/// That of CPython 3.`minor`.
pub(crate) fn layout(minor: u32) -> Option<Layout> {
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

/// Offset of a member that a type declares.
///
/// # Safety
/// `class` is the address of a type object.
pub(crate) unsafe fn member(class: usize, name: &CStr) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_versions_are_left_alone() {
        assert!(layout(8).is_none() && layout(99).is_none());
        assert!((9..=13).all(|minor| layout(minor).is_some()));
    }
}
