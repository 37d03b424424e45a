//! Pages: reports that a browser opens, each one file.
//!
//! Owns the frame of a page. The assets are real files beside it, taken in when memlab is built.

#[allow(dead_code, reason = "its first caller comes with the report page")]
mod page;
