//! Pages: reports that a browser opens, each one file.
//!
//! Owns the frame of a page, what stands in `report.html`, and how figures get into it ([`blob`]). Templates,
//! style sheets and scripts are real files in `assets`, taken in when memlab is built. Text of a trace gets into
//! a page by `text` alone.

pub mod blob;
mod device;
mod driver;
mod findings;
mod origin;
pub(in crate::report) mod page;
mod report;
mod table;
mod tables;
mod text;
mod verdict;

pub use report::{HtmlOptions, html};
