//! The tables of one device: which rows and columns each has.

mod driver;
mod fragmentation;
mod lines;
mod live;
mod other;
mod recorded;
mod steps;

pub(super) use driver::{driver_holders, driver_kinds, driver_lines, missing, refused, sums};
pub(super) use fragmentation::{by_cause, moments, pins, totals};
pub(super) use lines::lines;
pub(super) use live::live;
pub(super) use other::{categories, counters, ooms, pools, what_would_help};
pub(super) use recorded::{holders, modules, names};
pub(super) use steps::steps;
