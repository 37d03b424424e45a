//! The answer of `memlab diff`: plain data and its renderers. The picture is in `report::svg`.

mod html;
mod markdown;
mod text;
mod types;
mod words;

#[cfg(test)]
mod fixture;

pub use html::diff_html;
pub use markdown::diff_markdown;
pub use text::diff_text;
pub use types::{
    CategoryDiff, Change, DeviceDiff, DiffInput, DiffPlace, DiffReport, FactDiff, FiguresDiff, FindingDiff,
    FindingsDiff, FragmentationFigures, LibraryDiff, LineDiff, LinesSum, ModuleDiff, OomFigures, Sides,
    StepFigures,
};
pub(in crate::report) use words::{headline, picture_note};
