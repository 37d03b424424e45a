//! Exported tables: figures equal the report's, joins are complete, columns are those of the schema, texts survive.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use memlab::analysis::{Exporter, Table};
use memlab::model::{Trace, TraceBuilder};
use memlab::tables::{ColumnType, TABLES_SCHEMA, TableFormat};
use polars::prelude::{AnyValue, DataFrame, DataType, ParquetReader, SerReader};

use crate::inputs::{Analyzed, analyzed, analyzed_path, testdata};

/// Recordings with and without steps, failures, streams, modules, a beginning.
const RECORDINGS: [(&str, &str); 5] =
    [("torch", "cnn"), ("torch", "gpt"), ("torch", "oom"), ("torch", "streams"), ("torch", "ring")];

fn recordings() -> Vec<&'static Analyzed> {
    let mut all: Vec<_> = RECORDINGS.iter().map(|(folder, name)| analyzed(folder, name)).collect();
    all.push(analyzed_path(&testdata("emitter").join("oom.msgpack")));
    all
}

fn bytes(trace: &Trace, device: usize, table: Table, format: TableFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    Exporter::new(trace, &trace.devices[device]).write(table, format, &mut bytes).unwrap();
    bytes
}

/// The tables of a trace's first device, as a reader of Parquet gets them.
struct Tables<'a> {
    trace: &'a Trace,
    exporter: Exporter<'a>,
}

impl<'a> Tables<'a> {
    fn of(trace: &'a Trace) -> Self {
        Self { trace, exporter: Exporter::new(trace, &trace.devices[0]) }
    }

    fn read(&self, table: Table) -> DataFrame {
        let mut bytes = Vec::new();
        self.exporter.write(table, TableFormat::Parquet, &mut bytes).unwrap();
        ParquetReader::new(Cursor::new(bytes)).finish().unwrap()
    }
}

/// A column of counts; nulls are `None`.
fn counts(frame: &DataFrame, name: &str) -> Vec<Option<u64>> {
    let column = frame.column(name).unwrap();
    (0..column.len()).map(|row| column.get(row).unwrap().extract::<u64>()).collect()
}

fn total(frame: &DataFrame, name: &str) -> u64 {
    counts(frame, name).into_iter().flatten().sum()
}

fn texts(frame: &DataFrame, name: &str) -> Vec<Option<String>> {
    let column = frame.column(name).unwrap();
    column.str().unwrap().iter().map(|text| text.map(str::to_owned)).collect()
}

fn flags(frame: &DataFrame, name: &str) -> Vec<bool> {
    frame.column(name).unwrap().bool().unwrap().iter().map(|flag| flag == Some(true)).collect()
}

fn total_where(frame: &DataFrame, name: &str, flag: &str) -> u64 {
    let rows = counts(frame, name).into_iter().zip(flags(frame, flag));
    rows.filter(|(_, is_so)| *is_so).filter_map(|(value, _)| value).sum()
}

/// The only row's cell.
fn cell(frame: &DataFrame, name: &str) -> Option<u64> {
    assert_eq!(frame.height(), 1);
    counts(frame, name)[0]
}

#[test]
fn every_column_is_what_the_schema_says() {
    for Analyzed { trace, .. } in recordings() {
        let tables = Tables::of(trace);
        for table in Table::ALL {
            let frame = tables.read(table);
            let schema = table.schema();
            let names: Vec<_> = frame.get_column_names().iter().map(ToString::to_string).collect();
            assert_eq!(names, schema.columns.iter().map(|column| column.name).collect::<Vec<_>>(), "{table}");
            for column in schema.columns {
                let found = frame.column(column.name).unwrap();
                let promised = match column.kind {
                    ColumnType::U32 => DataType::UInt32,
                    ColumnType::U64 => DataType::UInt64,
                    ColumnType::I64 => DataType::Int64,
                    ColumnType::F64 => DataType::Float64,
                    ColumnType::Bool => DataType::Boolean,
                    ColumnType::Text => DataType::String,
                };
                assert_eq!(*found.dtype(), promised, "{table}.{}", column.name);
                assert!(column.nullable || found.null_count() == 0, "{table}.{} has nulls", column.name);
            }
        }
    }
}

#[test]
fn allocations_add_up_to_the_report() {
    for Analyzed { trace, report } in recordings() {
        let (tables, device) = (Tables::of(trace), &report.devices[0]);
        let allocations = tables.read(Table::Allocations);
        let live = |flag| total_where(&allocations, "block_bytes", flag);
        assert_eq!(live("live_at_peak"), device.peak.allocated_bytes);
        assert_eq!(live("live_at_end"), device.end.allocated_bytes);
        if let Some(oom) = device.ooms.last() {
            assert_eq!(live("live_at_oom"), oom.allocated_bytes);
        }
        let mut by_category: BTreeMap<String, u64> = BTreeMap::new();
        let rows = texts(&allocations, "category").into_iter().zip(counts(&allocations, "block_bytes"));
        for ((category, bytes), is_live) in rows.zip(flags(&allocations, "live_at_peak")) {
            *by_category.entry(category.unwrap()).or_default() += if is_live { bytes.unwrap() } else { 0 };
        }
        for row in &device.categories.rows {
            assert_eq!(by_category.get(&row.category), Some(&row.held_at_peak_bytes), "{}", row.category);
        }
        let by_step = counts(&allocations, "step").into_iter().flatten().collect::<BTreeSet<_>>();
        assert!(by_step.last().is_none_or(|&last| last < device.steps.count));
    }
}

#[test]
fn tables_of_lines_modules_and_categories_add_up_to_the_peak() {
    for Analyzed { trace, report } in recordings() {
        let (tables, device) = (Tables::of(trace), &report.devices[0]);
        let peak = device.peak.allocated_bytes;
        let lines = tables.read(Table::Lines);
        assert_eq!(total(&lines, "held_at_peak_bytes"), peak);
        assert_eq!(lines.height(), device.lines.len() + 1);
        let categories = tables.read(Table::Categories);
        assert_eq!(total(&categories, "held_at_peak_bytes"), peak);
        assert_eq!(total(&categories, "live_at_end_bytes"), device.end.allocated_bytes);
        let modules = tables.read(Table::Modules);
        assert_eq!(modules.height() > 0, device.modules.is_some());
        assert_eq!(total(&modules, "held_at_peak_bytes"), if device.modules.is_some() { peak } else { 0 });
    }
}

#[test]
fn segments_pools_and_usage_give_the_reserved_bytes() {
    for Analyzed { trace, report } in recordings() {
        let (tables, device) = (Tables::of(trace), &report.devices[0]);
        let segments = tables.read(Table::Segments);
        let held = counts(&segments, "bytes").into_iter().zip(counts(&segments, "free_event"));
        let held: u64 = held.filter(|(_, free)| free.is_none()).filter_map(|(bytes, _)| bytes).sum();
        assert_eq!(held, device.end.reserved_bytes);
        let usage = tables.read(Table::Usage);
        assert_eq!(usage.height() as u64, device.events + 1);
        for (name, peak, end) in [
            ("requested_bytes", device.peak.requested_bytes, device.end.requested_bytes),
            ("allocated_bytes", device.peak.allocated_bytes, device.end.allocated_bytes),
            ("active_bytes", device.peak.active_bytes, device.end.active_bytes),
            ("reserved_bytes", device.peak.reserved_bytes, device.end.reserved_bytes),
        ] {
            let column = counts(&usage, name);
            assert_eq!((column.iter().max(), column.last()), (Some(&Some(peak)), Some(&Some(end))), "{name}");
        }
        let pools = tables.read(Table::Pools);
        let rows = texts(&pools, "moment").into_iter().zip(counts(&pools, "reserved_bytes"));
        let at_peak =
            rows.filter(|(moment, _)| moment.as_deref() == Some("peak")).filter_map(|(_, bytes)| bytes);
        assert_eq!(at_peak.sum::<u64>(), device.peak.reserved_bytes);
    }
}

#[test]
fn fragmentation_is_the_report_s() {
    for Analyzed { trace, report } in recordings() {
        let fragmentation = Tables::of(trace).read(Table::Fragmentation);
        let told = &report.devices[0].fragmentation;
        let rows = [Some(&told.at_peak), told.at_oom.as_ref(), Some(&told.at_end)];
        let rows: Vec<_> = rows.into_iter().flatten().collect();
        assert_eq!(fragmentation.height(), rows.len());
        for (at, row) in rows.into_iter().enumerate() {
            let figure = |name: &str| counts(&fragmentation, name)[at].unwrap();
            assert_eq!(figure("reserved_bytes"), row.reserved_bytes);
            assert_eq!(figure("stranded_bytes"), row.stranded_bytes);
            assert_eq!(figure("cause_split_remainder_bytes"), row.by_cause.split_remainder_bytes);
            let causes = Table::Fragmentation.schema().columns.iter().map(|column| column.name);
            let causes: u64 = causes.filter(|name| name.starts_with("cause_")).map(figure).sum();
            assert_eq!(causes, row.reserved_bytes - row.requested_bytes);
        }
    }
}

#[test]
fn every_stack_that_a_table_names_is_there_whole() {
    for Analyzed { trace, .. } in recordings() {
        let tables = Tables::of(trace);
        let stacks = tables.read(Table::Stacks);
        let (numbers, depths) = (counts(&stacks, "stack"), counts(&stacks, "depth"));
        let (hashes, is_line) = (texts(&stacks, "stack_hash"), flags(&stacks, "is_line"));
        let mut known: BTreeMap<u64, (u64, &str, u64)> = BTreeMap::new();
        for row in 0..stacks.height() {
            let entry = known.entry(numbers[row].unwrap()).or_insert((0, hashes[row].as_deref().unwrap(), 0));
            assert_eq!(depths[row], Some(entry.0), "frames come in order");
            entry.0 += 1;
            entry.2 += u64::from(is_line[row]);
        }
        let distinct: BTreeSet<_> = known.values().map(|(_, hash, _)| hash).collect();
        assert_eq!(distinct.len(), known.len(), "different stacks have different hashes");
        for (number, (depth, _, lines)) in &known {
            let frames = tables.trace.stacks.get(memlab::model::StackId(*number as u32));
            assert_eq!(*depth, frames.len() as u64);
            assert!(*lines <= 1);
        }
        for table in [Table::Allocations, Table::Segments, Table::Ooms] {
            let frame = tables.read(table);
            for (stack, hash) in counts(&frame, "stack").into_iter().zip(texts(&frame, "stack_hash")) {
                let Some(stack) = stack else { continue };
                assert_eq!(known.get(&stack).map(|known| known.1), hash.as_deref(), "{table}");
            }
        }
    }
}

#[test]
fn steps_and_what_lines_keep_of_them_agree() {
    let mut seen = 0;
    for Analyzed { trace, report } in recordings() {
        let tables = Tables::of(trace);
        let (steps, lines) = (tables.read(Table::Steps), tables.read(Table::StepLines));
        let told = &report.devices[0].steps;
        assert_eq!(steps.height() as u64, told.count);
        let mut growth = vec![0; told.rows.len()];
        let column = lines.column("growth_bytes").unwrap();
        for (row, step) in counts(&lines, "step").into_iter().enumerate() {
            let AnyValue::Int64(bytes) = column.get(row).unwrap() else { panic!("a known change") };
            growth[step.unwrap() as usize] += bytes;
            seen += 1;
        }
        assert_eq!(growth, told.rows.iter().map(|step| step.growth_bytes).collect::<Vec<_>>());
    }
    assert!(seen > 0, "some recording has steps");
}

#[test]
fn findings_failures_and_warnings_are_the_report_s() {
    for Analyzed { trace, report } in recordings() {
        let (tables, device) = (Tables::of(trace), &report.devices[0]);
        let findings = tables.read(Table::Findings);
        let told: Vec<_> =
            report.findings.iter().map(|row| (Some(row.rule.clone()), Some(row.bytes))).collect();
        let found: Vec<_> = texts(&findings, "rule").into_iter().zip(counts(&findings, "bytes")).collect();
        assert_eq!(found, told);
        for (row, evidence) in report.findings.iter().zip(texts(&findings, "evidence")) {
            let read: serde_json::Value = serde_json::from_str(&evidence.unwrap()).unwrap();
            assert_eq!(read, serde_json::Value::from(row.evidence.clone()));
        }
        let ooms = tables.read(Table::Ooms);
        let told: Vec<_> =
            device.ooms.iter().map(|row| (Some(row.verdict.clone()), Some(row.requested_bytes))).collect();
        let found: Vec<_> =
            texts(&ooms, "verdict").into_iter().zip(counts(&ooms, "requested_bytes")).collect();
        assert_eq!(found, told);
        let warnings = tables.read(Table::Warnings);
        let (mut told, mut found) = (BTreeMap::new(), BTreeMap::new());
        for row in &report.warnings {
            *told.entry(row.kind.clone()).or_insert(0) += row.count;
        }
        for (kind, count) in texts(&warnings, "kind").into_iter().zip(counts(&warnings, "count")) {
            *found.entry(kind.unwrap()).or_insert(0) += count.unwrap();
        }
        assert_eq!(found, told);
    }
}

#[test]
fn the_recording_is_one_row() {
    for Analyzed { trace, report } in recordings() {
        let (row, device) = (Tables::of(trace).read(Table::Trace), &report.devices[0]);
        assert_eq!(cell(&row, "tables_schema"), Some(TABLES_SCHEMA.into()));
        assert_eq!(cell(&row, "events"), Some(device.events));
        assert_eq!(cell(&row, "total_bytes"), device.total_bytes);
        assert_eq!(cell(&row, "peak_reserved_bytes"), Some(device.peak.reserved_bytes));
        assert_eq!(cell(&row, "peak_allocated_event"), device.peak_event.allocated_bytes);
        assert_eq!(flags(&row, "complete"), [report.complete]);
        assert_eq!(texts(&row, "format"), [Some(report.format.to_owned())]);
    }
}

/// A quoted cell may hold anything but a lone quote.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut cell, mut quoted) = (vec![Vec::new()], String::new(), false);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' if quoted && signs.peek() == Some(&'"') => {
                signs.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => rows.last_mut().unwrap().push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                rows.last_mut().unwrap().push(std::mem::take(&mut cell));
                rows.push(Vec::new());
            }
            sign => cell.push(sign),
        }
    }
    rows.pop();
    rows
}

#[test]
fn hostile_names_come_through_untouched() {
    let long = "x".repeat(10_000);
    let names = [
        "a,b.py",
        "say \"hi\".py",
        "two\nlines\r\n.py",
        "lone\rreturn.py",
        "\u{1b}[31mred\u{1b}[0m.py",
        "=HYPERLINK(\"http://x\",\"y\").py",
        "+1.py",
        "-1.py",
        "@SUM(A1).py",
        "\u{202e}gnp.py",
        "a</script><script>.py",
        long.as_str(),
    ];
    let mut builder = TraceBuilder::new().segment_alloc(0x7000_0000_0000, 2 << 20);
    for (at, name) in names.into_iter().enumerate() {
        builder = builder.at(name, 1 + at as u64, name).alloc(0x7000_0000_0000 + 4096 * at as u64, 4096);
    }
    let trace = builder.build();
    for table in [Table::Allocations, Table::Stacks, Table::Lines] {
        let text = String::from_utf8(bytes(&trace, 0, table, TableFormat::Csv)).unwrap();
        let rows = read_csv(&text);
        let file = rows[0].iter().position(|name| name == "file").unwrap();
        assert!(text.contains("\"lone\rreturn.py\""), "readers that end lines there need quotes");
        assert!(rows.iter().all(|row| row.len() == table.schema().columns.len()), "{table}: {rows:?}");
        let read: BTreeSet<&str> =
            rows[1..].iter().map(|row| row[file].as_str()).filter(|name| !name.is_empty()).collect();
        assert_eq!(read, names.into_iter().collect::<BTreeSet<_>>(), "{table}");
    }
    let stacks = Tables::of(&trace).read(Table::Stacks);
    let read: BTreeSet<_> = texts(&stacks, "file").into_iter().flatten().collect();
    assert_eq!(read, names.into_iter().map(str::to_owned).collect());
}

#[test]
fn an_empty_text_is_no_null() {
    let trace = TraceBuilder::new()
        .segment_alloc(0x7000_0000_0000, 2 << 20)
        .stack(&[("", 0, ""), ("a.py", 1, "f")])
        .alloc(0x7000_0000_0000, 4096)
        .build();
    let text = String::from_utf8(bytes(&trace, 0, Table::Stacks, TableFormat::Csv)).unwrap();
    assert!(text.lines().nth(1).unwrap().contains(",0,\"\",,\"\",native,"), "{text}");
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let trace = crate::inputs::read(&crate::inputs::recording("torch", "oom"));
    for table in Table::ALL {
        for format in TableFormat::ALL {
            let again = crate::inputs::read(&crate::inputs::recording("torch", "oom"));
            assert!(bytes(&trace, 0, table, format) == bytes(&again, 0, table, format), "{table}.{format}");
        }
    }
}

#[test]
fn every_device_has_its_own_tables() {
    let trace = TraceBuilder::new()
        .segment_alloc(0x7000_0000_0000, 2 << 20)
        .alloc(0x7000_0000_0000, 4096)
        .device(3)
        .segment_alloc(0x7000_0000_0000, 2 << 20)
        .alloc(0x7000_0000_0000, 512)
        .build();
    let text = |device| String::from_utf8(bytes(&trace, device, Table::Lines, TableFormat::Csv)).unwrap();
    assert!(text(0).ends_with("\n0,,,,4096,4096,,0,4096,1,4096\n"), "{}", text(0));
    assert!(text(1).ends_with("\n3,,,,512,512,,0,512,1,512\n"), "{}", text(1));
}
