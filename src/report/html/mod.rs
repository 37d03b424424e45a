//! Pages: reports that a browser opens, each one file.
//!
//! Owns the frame of a page and what stands in `report.html`. Templates, style sheets and scripts are real
//! files in `assets`, taken in when memlab is built. Text of a trace gets into a page by `text` alone.

mod device;
mod findings;
mod origin;
mod page;
mod report;
mod table;
mod tables;
mod text;
mod verdict;

pub use report::{HtmlOptions, html};
