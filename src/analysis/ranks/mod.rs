//! Many files of one call: each one's row while it is at hand, then all of them side by side.

mod failure;
mod median;
mod named;
mod outliers;
mod row;
mod steps;
mod together;

pub use named::{Analysis, Compared, compared};
pub(super) use named::{facts, rank_in};
pub(super) use row::{course, row};
