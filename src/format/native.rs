//! Chunks of native tables: modules, frames and stacks of machine code.
//!
//! Owns their columns, both directions. Ids count on through the file as those of tables do, and what is lost in a damaged
//! chunk shows as unknown. What the frames mean is not known here.

use std::io;

use crate::model::{NativeFrame, NativeModule, NativeTables, Warnings};

use super::budget::{self, STACK_FRAME, TABLE_ROW};
use super::chunk::{Chunk, Kind};
use super::column::{Column, pack_offset, read_small};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::{Texts, read_map, read_pair, read_texts};
use super::ids::IdMap;
use super::packer::MapPacker;
use super::read::Context;
use super::write::Sink;

/// Rows in one chunk, as written here.
const CHUNK_ROWS: usize = 1 << 14;
/// Most frames of a stack.
const MOST_FRAMES: u32 = 256;

/// From ids of the file to ids of the model.
#[derive(Clone, Debug)]
pub(super) struct NativeIds {
    modules: IdMap,
    frames: IdMap,
    pub(super) stacks: IdMap,
}

impl Default for NativeIds {
    fn default() -> Self {
        Self { modules: IdMap::with_zero(), frames: IdMap::default(), stacks: IdMap::with_zero() }
    }
}

/// First id and number of rows of each table.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    modules: (u64, u64),
    frames: (u64, u64),
    stacks: (u64, u64),
    stack_frames: u64,
}

impl Facts {
    fn read(chunk: &Chunk<'_>, warnings: &mut Warnings) -> Parse<Self> {
        let mut facts = Self::default();
        read_map(chunk.facts, warnings, |key, cursor| {
            match key {
                "modules" => facts.modules = read_pair(cursor)?,
                "frames" => facts.frames = read_pair(cursor)?,
                "stacks" => facts.stacks = read_pair(cursor)?,
                "stack_frames" => facts.stack_frames = cursor.uint()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(facts)
    }

    fn cost(&self, raw_len: usize) -> u64 {
        [self.modules.1, self.frames.1, self.stacks.1]
            .into_iter()
            .map(|count| budget::rows(count, TABLE_ROW))
            .fold(raw_len as u64, u64::saturating_add)
            .saturating_add(budget::rows(self.stack_frames, STACK_FRAME))
    }

    fn pack(&self) -> MapPacker {
        let mut map = MapPacker::default();
        for (key, (first, count)) in
            [("modules", self.modules), ("frames", self.frames), ("stacks", self.stacks)]
        {
            if count > 0 {
                map.key(key).array(2).uint(first).uint(count);
            }
        }
        map.uint("stack_frames", self.stack_frames);
        map
    }
}

/// What one chunk holds, checked for shape.
#[derive(Default)]
struct Rows<'a> {
    paths: Texts<'a>,
    build_ids: Texts<'a>,
    biases: Vec<u64>,
    frame_modules: Vec<u32>,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    flat: Vec<u32>,
}

impl<'a> Rows<'a> {
    /// The budget has bounded every count in `facts`.
    fn read(payload: &'a [u8], facts: &Facts, warnings: &mut Warnings) -> Parse<Self> {
        let mut rows = Self::default();
        let (modules, frames) = (facts.modules.1 as usize, facts.frames.1 as usize);
        let values = |cursor: &mut Cursor<'a>, count| Ok(Column::read(cursor, count)?.values(count));
        read_map(payload, warnings, |key, cursor| {
            match key {
                "module_path" => rows.paths = read_texts(cursor)?,
                "module_build_id" => rows.build_ids = read_texts(cursor)?,
                "module_bias" => rows.biases = values(cursor, modules)?,
                "frame_module" => rows.frame_modules = read_small(cursor, frames)?,
                "frame_offset" => rows.offsets = values(cursor, frames)?,
                "stack_length" => rows.lengths = read_small(cursor, facts.stacks.1 as usize)?,
                "stack_frame" => rows.flat = read_small(cursor, facts.stack_frames as usize)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        rows.check(facts)?;
        Ok(rows)
    }

    fn check(&self, facts: &Facts) -> Parse<()> {
        let stated = [facts.modules.1, facts.modules.1, facts.modules.1, facts.frames.1, facts.frames.1];
        let found = [
            self.paths.len(),
            self.build_ids.len(),
            self.biases.len(),
            self.frame_modules.len(),
            self.offsets.len(),
        ];
        let in_stacks: u64 = self.lengths.iter().map(|&length| u64::from(length)).sum();
        let all_match = stated.into_iter().zip(found).all(|(stated, found)| stated == found as u64)
            && self.lengths.len() as u64 == facts.stacks.1
            && in_stacks == self.flat.len() as u64;
        if !all_match {
            return Err(Fault::Wrong("native tables of another length than stated"));
        }
        if self.lengths.iter().any(|&length| length > MOST_FRAMES) {
            return Err(Fault::Wrong("a native stack of more than 256 frames"));
        }
        Ok(())
    }
}

/// Enters a chunk into the trace's native tables.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    let facts = Facts::read(chunk, &mut context.trace.warnings)?;
    context.spend_on_tables(facts.cost(chunk.raw_len), chunk.end)?;
    let payload = chunk.unpack(&mut context.unpacker)?;
    let rows = Rows::read(payload, &facts, &mut context.trace.warnings)?;
    let ids = &mut context.native_ids;
    let mut missing = start(&mut ids.modules, facts.modules)?;
    missing += start(&mut ids.frames, facts.frames)?;
    missing += start(&mut ids.stacks, facts.stacks)?;
    let tables = &mut context.trace.driver.get_or_insert_default().native;
    let unknown = enter(&rows, tables, ids);
    let trace = &mut context.trace;
    if missing > 0 {
        trace.complete = false;
        trace.warnings.add("missing-table", || {
            format!(
                "rows of native tables are missing before byte {}: what names them shows as unknown",
                chunk.offset
            )
        });
    }
    trace.warnings.add_many("unknown-id", unknown, || {
        "native frames or stacks name modules or frames that the trace does not define".to_owned()
    });
    Ok(())
}

fn start(map: &mut IdMap, (first, count): (u64, u64)) -> Parse<u64> {
    if count == 0 { Ok(0) } else { map.start(first) }
}

/// Answers how many ids were not known.
fn enter(rows: &Rows<'_>, tables: &mut NativeTables, ids: &mut NativeIds) -> u64 {
    for (row, bias) in rows.biases.iter().enumerate() {
        let (path, build_id) = (rows.paths[row].to_string(), rows.build_ids[row].to_string());
        ids.modules.push(tables.push_module(NativeModule { path, build_id, bias: *bias }));
    }
    let mut unknown = 0;
    for (&module, &offset) in rows.frame_modules.iter().zip(&rows.offsets) {
        let module = ids.modules.get_or_zero(module.into(), &mut unknown);
        ids.frames.push(tables.push_frame(NativeFrame { module, offset }));
    }
    let mut flat = rows.flat.iter();
    for &length in &rows.lengths {
        let named = flat.by_ref().take(length as usize).map(|&frame| ids.frames.get(frame.into()));
        let mut known = Vec::with_capacity(length as usize);
        for frame in named {
            unknown += u64::from(frame.is_none());
            known.extend(frame);
        }
        ids.stacks.push(tables.push_stack(known).0);
    }
    unknown
}

/// Writes all tables.
pub(super) fn write(sink: &mut Sink<'_>, tables: &NativeTables) -> io::Result<()> {
    let modules = tables.modules();
    for from in (1..modules.len()).step_by(CHUNK_ROWS) {
        let rows = &modules[from..modules.len().min(from + CHUNK_ROWS)];
        emit(
            sink,
            Facts { modules: (from as u64, rows.len() as u64), ..Facts::default() },
            pack_modules(rows),
        )?;
    }
    for from in (0..tables.frames().len()).step_by(CHUNK_ROWS) {
        let rows = &tables.frames()[from..tables.frames().len().min(from + CHUNK_ROWS)];
        let mut payload = MapPacker::default();
        column(&mut payload, "frame_module", rows.iter().map(|frame| frame.module.into()));
        column(&mut payload, "frame_offset", rows.iter().map(|frame| frame.offset));
        emit(sink, Facts { frames: (from as u64, rows.len() as u64), ..Facts::default() }, payload)?;
    }
    for from in (1..tables.stack_count()).step_by(CHUNK_ROWS) {
        let to = tables.stack_count().min(from + CHUNK_ROWS);
        let stacks = || (from..to).map(|stack| tables.stack(crate::model::NativeStackId(stack as u32)));
        let mut payload = MapPacker::default();
        column(&mut payload, "stack_length", stacks().map(|stack| stack.len() as u64));
        column(&mut payload, "stack_frame", stacks().flatten().map(|&frame| frame.into()));
        let stack_frames = stacks().map(|stack| stack.len() as u64).sum();
        let facts = Facts { stacks: (from as u64, (to - from) as u64), stack_frames, ..Facts::default() };
        emit(sink, facts, payload)?;
    }
    Ok(())
}

fn pack_modules(rows: &[NativeModule]) -> MapPacker {
    let mut payload = MapPacker::default();
    let packer = payload.key("module_path").array(rows.len());
    for module in rows {
        packer.text(&module.path);
    }
    let packer = payload.key("module_build_id").array(rows.len());
    for module in rows {
        packer.text(&module.build_id);
    }
    column(&mut payload, "module_bias", rows.iter().map(|module| module.bias));
    payload
}

fn column(payload: &mut MapPacker, key: &str, values: impl Iterator<Item = u64>) {
    pack_offset(payload.key(key), &values.collect::<Vec<_>>(), 1);
}

fn emit(sink: &mut Sink<'_>, facts: Facts, payload: MapPacker) -> io::Result<()> {
    sink.emit(Kind::Native, facts.pack(), payload, |raw_len| facts.cost(raw_len))
}
