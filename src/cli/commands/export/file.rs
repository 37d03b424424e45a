//! Exports that are one file: profiles of stacks, counters over time, the snapshot.

use std::io::Write;

use anyhow::Context as _;

use super::target::{Target, is_standard_output};
use crate::analysis;
use crate::cli::args::ExportArgs;
use crate::cli::console::{Console, shown};
use crate::cli::failure::refuse;
use crate::cli::input::Input;
use crate::cli::output::Pending;
use crate::cli::packing::{self, Packing};
use crate::cli::{Status, input, names};
use crate::export::{self, DeviceHistory, Profile};
use crate::model::Trace;
use crate::tables::{GroupBy, Grouping};

/// What speedscope shows unless something is asked for: its viewer switches between profiles.
const SPEEDSCOPE_PROFILES: [Profile; 2] = [Profile::Peak, Profile::Total];

/// Runs the command.
pub(super) fn run(args: &ExportArgs, target: Target, console: &Console) -> anyhow::Result<Status> {
    if is_standard_output(&args.output) {
        let input = input::one(args.trace(), console, with_events)?;
        let devices = devices(&input, args, target)?;
        console.stream(|out| write(&input, &devices, args, target, out))?;
        return Ok(Status::Done);
    }
    let mut pending = Pending::create(&args.output, args.force)?;
    let input = input::one(args.trace(), console, with_events)?;
    let devices = devices(&input, args, target)?;
    write(&input, &devices, args, target, pending.writer())
        .with_context(|| format!("failed to write {}", shown(&args.output)))?;
    console.wrote(&args.output, pending.commit()?);
    Ok(Status::Done)
}

fn with_events(input: Input) -> anyhow::Result<Input> {
    input::require_events(&input.trace, "export")?;
    input::require_allocator(&input.trace, "export")?;
    Ok(input)
}

/// The devices to write, after making sure that one of them has what `--what` asks for. A snapshot is the recording
/// itself and needs none.
fn devices<'a>(
    input: &'a Input,
    args: &ExportArgs,
    target: Target,
) -> anyhow::Result<Vec<DeviceHistory<'a>>> {
    if target == Target::Snapshot {
        return Ok(Vec::new());
    }
    input::require_device(&input.trace, args.device)?;
    let profile = args.what.unwrap_or_default();
    if let Profile::Event(event) = profile {
        input::require_event(&input.trace, args.device, Some(event))?;
    }
    let devices = analysis::histories(&input.trace, args.device)?;
    if profile == Profile::Oom && devices.iter().all(|device| device.history.ooms.is_empty()) {
        let hint = "--what peak shows what was live when most was allocated";
        return Err(refuse("no request failed in this recording", hint));
    }
    Ok(devices)
}

fn write(
    input: &Input,
    devices: &[DeviceHistory],
    args: &ExportArgs,
    target: Target,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (trace, profile) = (&input.trace, args.what.unwrap_or_default());
    match target {
        Target::Folded => export::write_folded(trace, devices, profile, out)?,
        Target::Speedscope => {
            let profiles = args.what.map_or(SPEEDSCOPE_PROFILES.to_vec(), |profile| vec![profile]);
            export::write_speedscope(&names::stem(args.trace()), trace, devices, &profiles, out)?;
        }
        Target::Chrome => export::write_chrome(trace, devices, out)?,
        Target::Pprof => write_pprof(trace, devices, profile, out)?,
        Target::Perfetto => write_perfetto(trace, devices, out)?,
        Target::Snapshot => packing::write_snapshot(trace, Packing::of(&args.output), out)?,
        Target::Parquet | Target::Csv => unreachable!("tables are folders"),
    }
    Ok(())
}

/// A profile has what was live and what was allocated in all, so only the moment is asked for.
fn write_pprof(
    trace: &Trace,
    devices: &[DeviceHistory],
    profile: Profile,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let with_moment = |device: &DeviceHistory| profile.moment(&device.history).is_some();
    let devices: Vec<&DeviceHistory> = devices.iter().filter(|device| with_moment(device)).collect();
    let moments: Vec<_> = devices.iter().filter_map(|device| profile.moment(&device.history)).collect();
    let pairs: Vec<_> = devices.iter().map(|device| (device.device, &device.history)).collect();
    Ok(export::write_pprof(trace, &pairs, &moments, out)?)
}

fn write_perfetto(trace: &Trace, devices: &[DeviceHistory], out: &mut dyn Write) -> anyhow::Result<()> {
    let groupings: Vec<Grouping> = devices
        .iter()
        .map(|device| Grouping::build(trace, device.device, &device.history, GroupBy::Line))
        .collect();
    let parts: Vec<_> = devices
        .iter()
        .zip(&groupings)
        .map(|(device, grouping)| (device.device, &device.history, grouping))
        .collect();
    Ok(export::write_perfetto(trace, &parts, out)?)
}
