//! From calls to takings: what was taken from the driver, and until when.
//!
//! Owns the meaning of every call: what it takes, what it gives back, what a context takes along when it goes, and which
//! of two calls one inside the other are the same memory. Does not know who called (`holders`), nor the allocator (`join`).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::model::{DeviceId, DriverCall, DriverRow, NO_DEVICE};

use super::memory::Memory;
use super::nested::copies;
use super::physical::{Physical, Released};

/// How a taking ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Not at all, as far as calls say.
    Kept,
    /// It was given back.
    Given,
    /// Its context was destroyed.
    WithContext,
    /// The same address was handed out again, with no free seen.
    Unseen,
}

/// Memory from the call that took it to the one that gave it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// The call, by its index in the layer's rows.
    pub row: u32,
    /// What was taken.
    pub memory: Memory,
    /// Of which device; [`NO_DEVICE`] for the host, or when not known.
    pub device: DeviceId,
    /// Address, 0 where the memory has none (physical memory, arrays).
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Index of the call with which it ended; the number of rows if it did not.
    pub until: u32,
    /// How it ended.
    pub ending: Ending,
}

impl Taking {
    /// Whether it is held after the first `rows` calls.
    #[must_use]
    pub fn is_held_after(&self, rows: u32) -> bool {
        self.row < rows && self.until >= rows
    }
}

/// Addresses behind which there is physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Which taking; `None` for memory that was not seen being taken.
    pub taking: Option<u32>,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The call that mapped it.
    pub row: u32,
    /// The call that unmapped it; the number of rows if none did.
    pub until: u32,
}

/// All that was taken.
#[derive(Clone, Debug, Default)]
pub struct Takings {
    /// In the order of their calls.
    pub all: Vec<Taking>,
    /// In the order of their calls.
    pub mappings: Vec<Mapping>,
    /// Rows of calls for memory that failed.
    pub refused: Vec<u32>,
    /// Successful frees of what was not seen being taken.
    pub unknown_frees: u64,
    /// Takings at an address that was held: a free was not seen.
    pub unseen_frees: u64,
}

/// What addresses and handles are keyed by: a free says which of these it gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Device(u64),
    Host(u64),
    Registered(u64),
    Peer(u64),
    Array(u64),
}

/// What a call takes, by its kind; nothing for calls that take no memory.
fn taken(call: DriverCall) -> Option<Memory> {
    Some(match call {
        DriverCall::DeviceAlloc => Memory::Device,
        DriverCall::ManagedAlloc => Memory::Managed,
        DriverCall::PoolAlloc => Memory::Pool,
        DriverCall::HostAlloc => Memory::Pinned,
        DriverCall::HostRegister => Memory::Registered,
        DriverCall::Create => Memory::Physical,
        DriverCall::ArrayCreate => Memory::Array,
        DriverCall::Import | DriverCall::IpcOpen => Memory::Imported,
        _ => return None,
    })
}

fn key_of_taking(call: DriverCall, row: &DriverRow) -> Option<Key> {
    Some(match call {
        DriverCall::DeviceAlloc | DriverCall::ManagedAlloc | DriverCall::PoolAlloc => {
            Key::Device(row.address)
        }
        DriverCall::HostAlloc => Key::Host(row.address),
        DriverCall::HostRegister => Key::Registered(row.address),
        DriverCall::IpcOpen => Key::Peer(row.address),
        DriverCall::ArrayCreate => Key::Array(row.handle),
        _ => return None,
    })
}

fn key_of_free(call: DriverCall, row: &DriverRow) -> Option<Key> {
    Some(match call {
        DriverCall::DeviceFree | DriverCall::PoolFree => Key::Device(row.address),
        DriverCall::HostFree => Key::Host(row.address),
        DriverCall::HostUnregister => Key::Registered(row.address),
        DriverCall::IpcClose => Key::Peer(row.address),
        DriverCall::ArrayDestroy => Key::Array(row.handle),
        _ => return None,
    })
}

impl Takings {
    /// What `rows` (in their order) took.
    #[must_use]
    pub fn of(rows: &[DriverRow]) -> Self {
        let mut pass = Pass { end: rows.len() as u32, ..Pass::default() };
        let copies = copies(rows);
        for (index, row) in rows.iter().enumerate() {
            let Some(call) = row.call() else { continue };
            let index = index as u32;
            if row.is_success() {
                if !copies.contains(&index) {
                    pass.take_in(index, call, row);
                }
            } else if taken(call).is_some() && row.depth == 0 {
                pass.found.refused.push(index);
            }
        }
        pass.found
    }
}

#[derive(Default)]
struct Pass {
    end: u32,
    found: Takings,
    live: FxHashMap<Key, u32>,
    /// Takings that go with a context, ended ones included.
    by_context: FxHashMap<u64, Vec<(Key, u32)>>,
    /// Of each device: handle of its primary context, and how often it is retained.
    primary: BTreeMap<DeviceId, (u64, u64)>,
    physical: Physical,
}

impl Pass {
    fn take_in(&mut self, index: u32, call: DriverCall, row: &DriverRow) {
        if let Some(memory) = taken(call) {
            self.begin(index, call, memory, row);
        } else if let Some(key) = key_of_free(call, row) {
            self.give_back(index, key, row);
        } else {
            self.other(index, call, row);
        }
    }

    fn begin(&mut self, index: u32, call: DriverCall, memory: Memory, row: &DriverRow) {
        let number = self.found.all.len() as u32;
        if call == DriverCall::Import && self.physical.is_known(row.handle) {
            self.physical.retain(row.handle);
            return;
        }
        let device = if memory.is_of_the_host() { NO_DEVICE } else { row.device };
        self.found.all.push(Taking {
            row: index,
            memory,
            device,
            address: row.address,
            bytes: row.bytes,
            until: self.end,
            ending: Ending::Kept,
        });
        let Some(key) = key_of_taking(call, row) else {
            if let Some(old) = self.physical.create(row.handle, number) {
                self.found.unseen_frees += 1;
                self.close(old, index, Ending::Unseen);
            }
            return;
        };
        if let Some(old) = self.live.insert(key, number) {
            self.found.unseen_frees += 1;
            self.close(old, index, Ending::Unseen);
        }
        if memory.is_of_the_context() && row.context != 0 {
            self.by_context.entry(row.context).or_default().push((key, number));
        }
    }

    fn give_back(&mut self, index: u32, key: Key, row: &DriverRow) {
        if let Some(taking) = self.live.remove(&key) {
            self.close(taking, index, Ending::Given);
        } else if row.depth == 0 && row.address | row.handle != 0 {
            self.found.unknown_frees += 1;
        }
    }

    fn other(&mut self, index: u32, call: DriverCall, row: &DriverRow) {
        match call {
            DriverCall::Retain => self.physical.retain(row.handle),
            DriverCall::Release => match self.physical.release(row.handle) {
                Released::Ended(taking) => self.close(taking, index, Ending::Given),
                Released::Lives => {}
                Released::Unknown => self.found.unknown_frees += u64::from(row.depth == 0),
            },
            DriverCall::Map => {
                let taking = self.physical.map(row.handle, row.address, self.found.mappings.len() as u32);
                let (address, bytes) = (row.address, row.bytes);
                self.found.mappings.push(Mapping { taking, address, bytes, row: index, until: self.end });
            }
            DriverCall::Unmap => self.unmap(index, row),
            DriverCall::ContextRetain => {
                let entry = self.primary.entry(row.device).or_insert((row.handle, 0));
                *entry = (row.handle, entry.1 + 1);
            }
            DriverCall::ContextRelease => {
                let Some(entry) = self.primary.get_mut(&row.device) else { return };
                entry.1 = entry.1.saturating_sub(1);
                if entry.1 == 0 {
                    let context = entry.0;
                    self.end_context(index, context);
                }
            }
            DriverCall::ContextReset => {
                if let Some(&(context, _)) = self.primary.get(&row.device) {
                    self.end_context(index, context);
                }
            }
            DriverCall::ContextDestroy => self.end_context(index, row.handle),
            _ => {}
        }
    }

    fn unmap(&mut self, index: u32, row: &DriverRow) {
        for mapping in self.physical.unmap(row.address, row.bytes) {
            let Some(found) = self.found.mappings.get_mut(mapping.index as usize) else { continue };
            found.until = index;
            if let Some(taking) = mapping.ended {
                self.close(taking, index, Ending::Given);
            }
        }
    }

    fn end_context(&mut self, index: u32, context: u64) {
        for (key, taking) in self.by_context.remove(&context).unwrap_or_default() {
            if self.live.get(&key) == Some(&taking) {
                self.live.remove(&key);
                self.close(taking, index, Ending::WithContext);
            }
        }
    }

    fn close(&mut self, taking: u32, index: u32, ending: Ending) {
        if let Some(taking) = self.found.all.get_mut(taking as usize) {
            (taking.until, taking.ending) = (index, ending);
        }
    }
}

#[cfg(test)]
#[path = "takings_tests.rs"]
mod tests;
