//! Tables of many ranks as one dataset, partitioned by job and rank: `docs/fleet.md` asks it questions.

mod manifest;
mod place;
mod run;

pub(super) use run::run;
