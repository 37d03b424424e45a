//! `memlab oom`: out-of-memory messages in logs.

mod forms;
mod page;
mod program;
mod rows;
mod several;
mod texts;
mod verdicts;
