//! Pages: reports that a browser opens, each one file.
//!
//! Owns the frame of a page, and how figures get into it ([`blob`]). The assets are real files beside it, taken
//! in when memlab is built.

pub mod blob;
#[allow(dead_code, reason = "its first caller comes with the report page")]
mod page;
