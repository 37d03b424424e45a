//! Out-of-memory messages explained: shapes and text.

mod text;
mod types;

pub use text::oom_text;
pub use types::{LogRow, MessageRow, OomReport, ProcessRow};

/// What the words of the messages mean.
pub const GLOSSARY: [(&str, &str); 5] = [
    ("allocated", "handed out to tensors, or kept free in private pools"),
    ("unallocated", "held by PyTorch and free, in pieces between what is allocated"),
    ("reserved", "allocated and unallocated: all that PyTorch's allocator holds from the driver"),
    ("outside", "in use, but not by this allocator: contexts, libraries such as NCCL, other processes"),
    ("free", "what the driver had left on the device"),
];
