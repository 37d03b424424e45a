//! Many files of one call: each one's row while it is at hand, then all of them side by side.

mod compared;
mod failure;
mod median;
mod named;
mod outliers;
mod row;
mod steps;
mod together;

pub use compared::{Analysis, Compared, Kept, compared, put_finding};
pub use named::job_name;
pub(super) use named::{facts, rank_in};
pub(super) use row::{course, course_of, row, unix_time};
