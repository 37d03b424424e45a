"""Exported tables, as those read them who take them away: Polars and DuckDB.

Holds names, types and nulls against docs/tables.md, CSV against Parquet, sums against `memlab analyze --json`, joins
against the stacks, hashes against their written rule, and runs the page's queries as they stand. Names that break
readers come through.
Call: tables.py MEMLAB ROOT SCRATCH
"""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl

RECORDINGS = {
    "gpt": "testdata/torch/gpt.pickle.gz",
    "oom": "testdata/torch/oom.pickle.gz",
    "varlen.default": "testdata/torch/varlen.default.pickle.gz",
    "recorded": "testdata/emitter/oom.msgpack",
}
HOSTILE = [
    "a,b.py",
    'say "hi".py',
    '".py',
    "two\nlines\r\n.py",
    "lone\rreturn.py",
    "\x1b[31mred\x1b[0m.py",
    '=HYPERLINK("http://x","y").py',
    "+1.py",
    "-1.py",
    "@SUM(A1).py",
    "\u202egnp.py",
    "a</script><script>.py",
    "NULL",
    "",
    "x" * 10_000,
]
POLARS = {
    "u32": pl.UInt32,
    "u64": pl.UInt64,
    "i64": pl.Int64,
    "f64": pl.Float64,
    "bool": pl.Boolean,
    "text": pl.String,
}
DUCKDB = {"u32": "UINTEGER", "u64": "UBIGINT", "i64": "BIGINT", "f64": "DOUBLE", "bool": "BOOLEAN", "text": "VARCHAR"}


def read_page(page):
    """The schema version, {table: [(column, type, nullable)]}, and the queries."""
    version = int(re.search(r"This is version (\d+) of the tables", page).group(1))
    tables = {}
    for section in page.split("\n## ")[1:]:
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \w* \| (yes|) \| .* \|$", section, re.MULTILINE)
        if rows:
            tables[section.split("\n")[0]] = [(name, kind, null == "yes") for name, kind, null in rows]
    return version, tables, re.findall(r"```sql\n(.*?)```", page, re.DOTALL)


def check_parquet(folder, version, tables):
    """Every table is there with the columns of the page, for both readers."""
    found = {path.stem for path in folder.glob("*.parquet")}
    assert found == set(tables), found ^ set(tables)
    frames = {}
    for table, columns in tables.items():
        path = folder / f"{table}.parquet"
        frame = frames[table] = pl.read_parquet(path)
        assert list(frame.schema.items()) == [(name, POLARS[kind]) for name, kind, _ in columns], (table, frame.schema)
        for name, _, nullable in columns:
            assert nullable or frame[name].null_count() == 0, f"{table}.{name} has nulls"
        described = duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
        assert [row[:2] for row in described] == [(name, DUCKDB[kind]) for name, kind, _ in columns], table
        facts = duckdb.sql(f"SELECT decode(key), decode(value) FROM parquet_kv_metadata('{path}')").fetchall()
        facts = dict(facts)
        assert facts["memlab.table"] == table and facts["memlab.tables_schema"] == str(version), facts
    return frames


def check_csv(folder, tables, frames):
    """CSV, read with the page's types, holds what Parquet holds, empty texts and nulls told apart."""
    for table, columns in tables.items():
        path = folder / f"{table}.csv"
        types = {name: DUCKDB[kind] for name, kind, _ in columns}
        rows = duckdb.sql(
            f"SELECT * FROM read_csv('{path}', header=true, delim=',', quote='\"', escape='\"', nullstr='',"
            f" allow_quoted_nulls=false, columns={types}, auto_detect=false, max_line_size=10000000)"
        ).fetchall()
        assert rows == frames[table].rows(), f"{table}: DuckDB reads the CSV differently"
        schema = {name: POLARS[kind] for name, kind, _ in columns}
        read = pl.read_csv(path, schema=schema)
        texts = [name for name, kind, _ in columns if kind == "text"]
        empty = [pl.col(name).fill_null("") for name in texts]
        assert read.with_columns(empty).equals(frames[table].with_columns(empty)), f"{table}: Polars differs"


def live(frames, flag):
    return frames["allocations"].filter(flag)["block_bytes"].sum()


def check_sums(frames, trace):
    """Sums are the report's."""
    device = trace["devices"][0]
    peak, end = device["peak"], device["end"]
    assert live(frames, "live_at_peak") == peak["allocated_bytes"]
    assert live(frames, "live_at_end") == end["allocated_bytes"]
    if device["ooms"]:
        assert live(frames, "live_at_oom") == device["ooms"][-1]["allocated_bytes"]
    assert frames["lines"]["held_at_peak_bytes"].sum() == peak["allocated_bytes"]
    assert len(frames["lines"]) == len(device["lines"]) + device["lines_left_out"] + 1
    assert frames["lines"]["allocations"].sum() == len(frames["allocations"])
    assert frames["categories"]["held_at_peak_bytes"].sum() == peak["allocated_bytes"]
    by_category = dict(frames["categories"].select("category", "live_at_end_bytes").rows())
    assert by_category == {row["category"]: row["live_at_end_bytes"] for row in device["categories"]["rows"]}
    for counter in ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"):
        assert frames["usage"][counter].max() == peak[counter], counter
        assert frames["usage"][counter][-1] == end[counter], counter
    assert len(frames["usage"]) == device["events"] + 1
    held = frames["segments"].filter(pl.col("free_event").is_null())
    assert held["bytes"].sum() == end["reserved_bytes"]
    pools = frames["pools"].filter(pl.col("moment") == "peak")
    assert pools["reserved_bytes"].sum() == peak["reserved_bytes"]
    causes = [name for name in frames["fragmentation"].columns if name.startswith("cause_")]
    for row in frames["fragmentation"].iter_rows(named=True):
        told = device["fragmentation"]["at_" + row["moment"]]
        assert {name: told["by_cause"][name.removeprefix("cause_")] for name in causes} == {n: row[n] for n in causes}
        assert {name: told[name] for name in told if name in row} == {name: row[name] for name in told if name in row}
    if "modules" in device:
        assert frames["modules"]["held_at_peak_bytes"].sum() == peak["allocated_bytes"]


def check_rows(frames, trace):
    """Findings, failures, warnings and steps are the report's rows."""
    device = trace["devices"][0]
    found = [row for row in trace["findings"] if row["device"] == device["device"]]
    columns = ["rule", "severity", "title", "bytes", "remedy"]
    assert frames["findings"].select(columns).rows() == [tuple(row[name] for name in columns) for row in found]
    assert [json.loads(text) for text in frames["findings"]["evidence"]] == [row["evidence"] for row in found]
    ooms = device["ooms"]
    columns = ["event", "requested_bytes", "verdict", "cause", "missing_bytes", "device_free_bytes", "reserved_bytes"]
    assert frames["ooms"].select(columns).rows() == [tuple(row[name] for name in columns) for row in ooms]
    columns = ["name", "peak_allocated_bytes", "end_allocated_bytes", "growth_bytes"]
    steps = device["steps"]["rows"]
    assert frames["steps"].select(columns).rows() == [tuple(row[name] for name in columns) for row in steps]
    counted = dict(frames["warnings"].group_by("kind").agg(pl.col("count").sum()).rows())
    told = {}
    for row in trace["warnings"]:
        told[row["kind"]] = told.get(row["kind"], 0) + row["count"]
    assert counted == told, (counted, told)
    (row,) = frames["trace"].rows(named=True)
    assert row["complete"] == trace["complete"] and row["events"] == device["events"]


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def check_joins(frames):
    """Every stack that is named is there whole, under the hash that the page's rule gives; steps add up."""
    stacks = frames["stacks"].sort("stack", "depth")
    hashes = {}
    for (stack, digits), frame in stacks.group_by(["stack", "stack_hash"], maintain_order=True):
        assert frame["depth"].to_list() == list(range(len(frame)))
        value = fnv(b"")
        for file, line, function in frame.select("file", "line", "function").rows():
            text = file.encode() + b"\xff" + function.encode() + b"\xff" + (line or 0).to_bytes(8, "little")
            value = fnv(fnv(text).to_bytes(8, "little"), value)
        assert digits == f"{value:016x}", stack
        hashes[stack] = digits
    for table in ("allocations", "segments", "ooms"):
        for stack, digits in frames[table].select("stack", "stack_hash").unique().rows():
            assert hashes.get(stack) == digits, (table, stack)
    charged = frames["allocations"].filter(~pl.col("inferred") & pl.col("file").is_not_null() & pl.col("stack").is_not_null())
    lines = stacks.filter("is_line").select("stack", "file", "line", "function")
    joined = charged.join(lines, on="stack", how="left", suffix="_of_stack")
    for name in ("file", "line", "function"):
        assert joined.select(pl.col(name).eq_missing(pl.col(name + "_of_stack")).all()).item(), name
    grown = dict(frames["step_lines"].group_by("step").agg(pl.col("growth_bytes").sum()).rows())
    for step, bytes_ in frames["steps"].select("step", "growth_bytes").rows():
        assert grown.get(step, 0) == bytes_, step
    made = frames["allocations"].drop_nulls("step").group_by("step").agg(pl.len(), pl.col("block_bytes").sum())
    told = frames["step_lines"].group_by("step").agg(pl.col("allocations").sum(), pl.col("allocated_bytes").sum())
    told = told.filter(pl.col("allocations") > 0)
    assert sorted(made.rows()) == sorted(told.rows())


def check_queries(folder, queries, frames):
    """The page's queries run as they stand in the folder that holds `tables`."""
    os.chdir(folder)
    results = [duckdb.sql(query) for query in queries]
    holders, stack, growing = (pl.DataFrame(r.fetchall(), schema=r.columns, orient="row") for r in results)
    held = frames["allocations"].filter("live_at_peak")
    groups = held.group_by("file", "line", "function", "category").agg(pl.col("block_bytes").sum())
    assert holders["bytes"].to_list() == groups["block_bytes"].sort(descending=True)[:10].to_list()
    if held["stack"].drop_nulls().is_empty():
        assert stack.is_empty()
    else:
        assert stack["depth"].to_list() == list(range(len(stack))) and len(stack) > 0
    later = frames["step_lines"].filter(pl.col("step") > 0)
    grown = later.group_by("file", "line", "function").agg(pl.col("growth_bytes").sum()).filter(pl.col("growth_bytes") > 0)
    assert growing["grown_bytes"].to_list() == grown["growth_bytes"].sort(descending=True).to_list()
    return len(growing)


def write_hostile(path):
    """A snapshot whose stacks are named to break readers."""
    base = 0x7F0000000000
    events = [{"action": "segment_alloc", "addr": base, "size": 2 << 20, "stream": 0, "time_us": 1, "frames": []}]
    for at, name in enumerate(HOSTILE):
        frames = [{"filename": name, "line": at + 1, "name": name}]
        event = {"action": "alloc", "addr": base + 4096 * at, "size": 4096, "stream": 0, "time_us": 2 + at}
        events.append(event | {"frames": frames})
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}))


def export(memlab, trace, folder):
    """Both formats of every table."""
    for kind, output in (("parquet", folder / "tables"), ("csv", folder / "csv")):
        subprocess.run([memlab, "export", trace, "-o", output, "--format", kind, "--quiet"], check=True)


def check_hostile(memlab, folder, version, tables):
    """Names come through untouched in both formats."""
    folder.mkdir()
    write_hostile(folder / "hostile.pickle")
    export(memlab, folder / "hostile.pickle", folder)
    frames = check_parquet(folder / "tables", version, tables)
    check_csv(folder / "csv", tables, frames)
    check_joins(frames)
    for name in ("file", "function"):
        assert sorted(frames["stacks"][name]) == sorted(HOSTILE), name


def main():
    memlab, root, scratch = (Path(argument).resolve() for argument in sys.argv[1:])
    version, tables, queries = read_page((root / "docs/tables.md").read_text())
    assert len(tables) == 16 and len(queries) == 3, (list(tables), len(queries))
    growing = 0
    for name, path in RECORDINGS.items():
        folder, trace = scratch / name, root / path
        export(memlab, trace, folder)
        report = json.loads(subprocess.run([memlab, "analyze", "--json", trace], check=True, capture_output=True).stdout)
        frames = check_parquet(folder / "tables", version, tables)
        check_csv(folder / "csv", tables, frames)
        check_sums(frames, report["traces"][0])
        check_rows(frames, report["traces"][0])
        check_joins(frames)
        growing += check_queries(folder, queries, frames)
        print(f"{name}: {len(frames)} tables, {sum(map(len, frames.values()))} rows")
    check_hostile(memlab, scratch / "hostile", version, tables)
    assert growing > 0, "no recording has a line that grows"


main()
