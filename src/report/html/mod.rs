//! Pages: reports that a browser opens, each one file.
//!
//! Owns the frame of a page. The assets are real files beside it, taken in when memlab is built.

pub(in crate::report) mod page;
