//! What is in a trace: the vocabulary of every floor above.
//!
//! Owns the in-memory [`Trace`]: interned strings, frames and stacks, one columnar event list per device,
//! the final segments, settings, annotations, and what the emitter adds. Does not own files (`import`),
//! nor any meaning beyond what was recorded (`rebuild`). Invariants: every id stored in a trace is valid
//! in that trace's tables; all columns of an event list have one length; id 0 is the empty string and the
//! empty stack.

mod builder;
mod counts;
mod driver;
mod events;
mod facts;
mod frames;
mod reduced;
mod segments;
mod settings;
mod stacks;
mod strings;
mod trace;
mod visible;
mod warning;

pub use builder::TraceBuilder;
pub use counts::{EventCounts, Outline};
pub use driver::{
    DriverCall, DriverLayer, DriverRow, NO_DEVICE, NativeFrame, NativeModule, NativeName, NativeNames,
    NativeStackId, NativeTables,
};
pub use events::{Action, Event, Events, FREE_UNKNOWN, NO_TIME, OptionalColumn};
pub use facts::{DeviceFacts, Holder, Mark, MarkKind, NamedTensor, ProcessFacts, Sample};
pub use frames::{Frame, FrameId, FrameTable};
pub use reduced::{LiveMoment, LiveRow, LiveSet, Origin, Reduced};
pub use segments::{Block, BlockState, PoolId, Segment, SegmentKind};
pub use settings::{SettingValue, Settings};
pub use stacks::{StackId, StackTable};
pub use strings::{StringId, StringTable};
pub use trace::{Annotation, DeviceId, DeviceTrace, Excerpt, Format, Trace};
pub use visible::{is_invisible, visible};
pub use warning::{Warning, Warnings};
