//! `memlab analyze`: the whole report, on the screen, as JSON or as files; of several files the ranks besides.

mod files;
mod ranks;
mod run;
mod sink;

pub(super) use run::run;
