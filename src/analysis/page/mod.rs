//! One device for a page: its lifetimes and levels, written and packed within a budget.
//!
//! Owns how much detail a device gets ([`fit`]) and the keys of its header ([`header`]). The figures are
//! `tables`', the container is `report`'s.

mod fit;
mod header;

pub(super) use fit::page_device;
