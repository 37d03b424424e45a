//! What driver calls amount to: who holds the device's memory, for how long, and where it was asked for.
//!
//! Owns the rebuilding of the driver's layer from its calls, and its join with the allocator's: [`Takings`] from call to
//! call, [`Holders`] by machine code, [`Join`] by address. Does not own names of machine code (`symbols`), nor words
//! (`report`). Bytes are those that were asked for.

mod claims;
mod holders;
mod join;
mod known_libraries;
mod memory;
mod nested;
mod physical;
mod places;
mod sums;
mod takings;
mod usage;

pub use claims::{AllocatorEvents, Claims, program};
pub use holders::{Holder, HolderKind, Holders};
pub use join::{Join, Obtained};
pub use memory::Memory;
pub use places::{Place, Places};
pub use sums::{Reading, Sum, SumMoment, sums};
pub use takings::{Ending, Mapping, Taking, Takings};
pub use usage::{Curve, DriverUsage, Figures, counts_on, figures};

#[cfg(test)]
pub(crate) mod samples {
    //! Calls for tests: made by hand, and recorded on a GPU.
    #![allow(clippy::unwrap_used)]

    use crate::format::read;
    use crate::model::{DeviceId, DriverCall, DriverRow, NativeStackId, Trace};

    /// A recording of `testdata/driver/recorded`.
    pub(crate) fn recorded(name: &str) -> Trace {
        let bytes: &[u8] = match name {
            "cupti" => include_bytes!("../../testdata/driver/recorded/cupti.msgpack"),
            "preload" => include_bytes!("../../testdata/driver/recorded/preload.msgpack"),
            "torch" => include_bytes!("../../testdata/driver/recorded/torch.msgpack"),
            "expandable" => include_bytes!("../../testdata/driver/recorded/expandable.msgpack"),
            _ => panic!("there is no recording {name}"),
        };
        let trace = read(bytes).unwrap();
        assert!(trace.complete && trace.warnings.is_empty(), "{:?}", trace.warnings);
        trace
    }

    /// Calls one after the other, ten microseconds apart.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Calls {
        pub(crate) rows: Vec<DriverRow>,
        next: DriverRow,
    }

    impl Calls {
        pub(crate) fn at(mut self, address: u64) -> Self {
            self.next.address = address;
            self
        }

        pub(crate) fn handle(mut self, handle: u64) -> Self {
            self.next.handle = handle;
            self
        }

        pub(crate) fn context(mut self, context: u64) -> Self {
            self.next.context = context;
            self
        }

        pub(crate) fn device(mut self, device: u32) -> Self {
            self.next.device = DeviceId(device);
            self
        }

        pub(crate) fn stack(mut self, stack: u32) -> Self {
            self.next.native = NativeStackId(stack);
            self
        }

        pub(crate) fn take(self, call: DriverCall, bytes: u64) -> Self {
            self.call(call, bytes, 0)
        }

        pub(crate) fn give(self, call: DriverCall) -> Self {
            self.call(call, 0, 0)
        }

        pub(crate) fn map(self, bytes: u64) -> Self {
            self.call(DriverCall::Map, bytes, 0)
        }

        pub(crate) fn unmap(self, bytes: u64) -> Self {
            self.call(DriverCall::Unmap, bytes, 0)
        }

        pub(crate) fn failed(self, call: DriverCall, bytes: u64, result: u32) -> Self {
            self.call(call, bytes, result)
        }

        fn call(mut self, call: DriverCall, bytes: u64, result: u32) -> Self {
            let number = self.rows.len() as u64;
            let (order, time_us) = (number + 1, 1_000_000 + 10 * number as i64);
            self.rows.push(DriverRow { code: call as u8, bytes, result, order, time_us, ..self.next });
            self.next = DriverRow::default();
            self
        }
    }
}
