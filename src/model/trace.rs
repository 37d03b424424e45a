//! The trace itself.

use super::{
    DriverLayer, Events, FrameTable, Holder, Mark, NamedTensor, PoolId, ProcessFacts, Reduced, Sample,
    Segment, Settings, StackTable, StringId, StringTable, Warnings,
};

/// GPU index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DeviceId(pub u32);

/// What kind of file a trace came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// memlab's own format.
    #[default]
    MemlabTrace,
    /// PyTorch's snapshot, as pickle or as JSON.
    TorchSnapshot,
}

impl Format {
    /// The name that the JSON contract uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemlabTrace => "memlab-trace",
            Self::TorchSnapshot => "torch-snapshot",
        }
    }
}

/// Begin or end of a `record_function` range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Name of the range.
    pub name: StringId,
    /// True for START, false for END.
    pub begins: bool,
    /// Current device of the calling thread; `u32::MAX` when the file does not say.
    pub device: DeviceId,
    /// Unix microseconds, or [`super::NO_TIME`].
    pub time_us: i64,
}

/// Everything recorded about one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceTrace {
    /// Index of the device.
    pub device: DeviceId,
    /// Events, oldest first.
    pub events: Events,
    /// State at the end of the recording, by address; `None` when the file does not have it (a killed job, for example).
    /// It is the state after the events of the columns only if these reach so far: [`DeviceTrace::stated_end`].
    pub segments: Option<Vec<Segment>>,
    /// Where the events begin, when they do not begin with the recording's first.
    pub excerpt: Option<Excerpt>,
}

/// Which part of a recording an excerpt is: event 0 of the columns is event `first_event` of the recording, and before it
/// the allocator was in this state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Number of the first event in the columns.
    pub first_event: u64,
    /// How many events the recording has on this device.
    pub recorded_events: u64,
    /// Segments and blocks before that event, by address; sizes of blocks are true ones.
    pub segments: Vec<Segment>,
}

impl DeviceTrace {
    /// Number of the first event in the columns: 0 unless this is an excerpt.
    #[must_use]
    pub fn first_event(&self) -> u64 {
        self.excerpt.as_ref().map_or(0, |excerpt| excerpt.first_event)
    }

    /// How many events the recording has on this device: more than the columns where they are an excerpt.
    #[must_use]
    pub fn recorded_events(&self) -> u64 {
        let behind = self.first_event() + self.events.len() as u64;
        self.excerpt.as_ref().map_or(behind, |excerpt| excerpt.recorded_events.max(behind))
    }

    /// Whether the columns reach to the recording's last event: false only for an excerpt.
    #[must_use]
    pub fn reaches_the_end(&self) -> bool {
        self.first_event() + self.events.len() as u64 >= self.recorded_events()
    }

    /// The final state, if the columns reach up to it.
    #[must_use]
    pub fn stated_end(&self) -> Option<&[Segment]> {
        self.segments.as_deref().filter(|_| self.reaches_the_end())
    }
}

/// All that a file holds, with every id resolved against the tables beside it.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Kind of file.
    pub format: Format,
    /// Whether the recording ended properly and no chunk is missing. Snapshots always are complete files;
    /// whether their *history* reaches back to the start is for `rebuild` to say.
    pub complete: bool,
    /// Texts.
    pub strings: StringTable,
    /// Source positions.
    pub frames: FrameTable,
    /// Stacks.
    pub stacks: StackTable,
    /// Pools named by events; [`Events::pools`] holds the index plus one.
    pub pools: Vec<PoolId>,
    /// One entry per device that has events or segments, ascending.
    pub devices: Vec<DeviceTrace>,
    /// Allocator settings.
    pub settings: Settings,
    /// `record_function` ranges, in the order recorded.
    pub annotations: Vec<Annotation>,
    /// Facts of the process.
    pub process: ProcessFacts,
    /// Steps, phases, modules and user marks, by time.
    pub marks: Vec<Mark>,
    /// Named storages.
    pub tensors: Vec<NamedTensor>,
    /// Who holds storages.
    pub holders: Vec<Holder>,
    /// What driver and allocator said while the recording ran.
    pub samples: Vec<Sample>,
    /// Calls of the CUDA driver, where a recorder saw them.
    pub driver: Option<Box<DriverLayer>>,
    /// The report that stands in place of the events, where the recording was reduced.
    pub reduced: Option<Box<Reduced>>,
    /// Faults met while reading.
    pub warnings: Warnings,
}

impl Trace {
    /// The device called `device`, if it is in the trace.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> Option<&DeviceTrace> {
        self.devices.iter().find(|entry| entry.device == device)
    }

    /// The entry of `device`, made if it is new; entries stay in ascending order.
    pub fn device_mut(&mut self, device: DeviceId) -> &mut DeviceTrace {
        let at = match self.devices.binary_search_by_key(&device, |entry| entry.device) {
            Ok(at) => at,
            Err(at) => {
                self.devices.insert(at, DeviceTrace { device, ..DeviceTrace::default() });
                at
            }
        };
        &mut self.devices[at]
    }

    /// Index plus one of `pool` in [`Trace::pools`], entered if new: the value of [`Events::pools`].
    pub fn pool_index(&mut self, pool: PoolId) -> u32 {
        if let Some(found) = self.pools.iter().rposition(|&known| known == pool) {
            return found as u32 + 1;
        }
        self.pools.push(pool);
        self.pools.len() as u32
    }

    /// The pool that event `event` of `device` names, if it names one.
    #[must_use]
    pub fn event_pool(&self, device: &DeviceTrace, event: usize) -> Option<PoolId> {
        let index = device.events.pools.get(event).checked_sub(1)?;
        self.pools.get(index as usize).copied()
    }

    /// The part of `device`'s memory that the process may use, as the configuration or the recorder says;
    /// 1.0 when the recorder says that nothing was set, `None` when nobody says anything.
    #[must_use]
    pub fn memory_fraction(&self, device: DeviceId) -> Option<f64> {
        use serde_json::Value;
        let stated = match self.process.other.get("memory_fraction") {
            Some(Value::Object(by_device)) => by_device.get(&device.0.to_string()).and_then(Value::as_f64),
            Some(value) => value.as_f64(),
            None => None,
        };
        stated.or_else(|| self.settings.memory_fraction()).filter(|part| (0.0..=1.0).contains(part))
    }

    /// Events that the recording has on all devices, also where only an excerpt is at hand.
    #[must_use]
    pub fn recorded_events(&self) -> u64 {
        self.devices.iter().map(DeviceTrace::recorded_events).sum()
    }

    /// Events on all devices.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.devices.iter().map(|device| device.events.len()).sum()
    }
}
