//! The ranks of a job together: one table, who stands apart, who failed first.

#[cfg(test)]
pub(in crate::report) mod fixture;
mod html;
mod markdown;
mod text;
mod types;
mod words;

pub use html::ranks_html;
pub use markdown::ranks_markdown;
pub use text::ranks_text;
pub use types::{
    FailedRank, OtherDevice, RankCurve, RankFailure, RankFinding, RankGrowth, RankLine, RankOom, RankOutlier,
    RankRow, RankSteps, RanksReport, SeverityCounts, StepAcross, rank_name,
};
