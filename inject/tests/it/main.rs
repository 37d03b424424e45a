//! The recorder against stand-ins for libcuda and libcupti, which are built here with cc: no GPU is needed.

#![cfg(target_os = "linux")]

mod calls;
mod cost;
mod endings;
mod processes;
mod python;
mod readings;
mod stacks;
mod support;
mod trace;
mod ways;
