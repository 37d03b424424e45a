"""The questions of docs/fleet.md, asked as they stand, answered as the single files answer them.

Recordings of this repository become ranks of two jobs, and one dataset. Every query of the page runs in DuckDB or
Polars; its answer must be what plain Python makes of `memlab analyze --json` of each file, or, where that does not
say, of the file's own folded stacks, tables or events.
Call: fleet.py MEMLAB ROOT SCRATCH
"""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import duckdb
import polars as pl

RECORDINGS = {
    ("run 7", 0): "torch/noleak.pickle.gz",
    ("run 7", 1): "torch/noleak.pickle.gz",
    ("run 7", 2): "torch/leak_loss.pickle.gz",
    ("run 7", 3): "torch/oom.pickle.gz",
    ("run 7", 10): "emitter/oom.msgpack",
    ("run 7", 11): "torch/leak_cache.pickle.gz",
    ("two", 0): "faults/gathered_on_rank0.rank0.pickle.gz",
    ("two", 1): "faults/gathered_on_rank0.rank1.pickle.gz",
    ("two", 2): "faults/foreign_device.pickle.gz",
    ("two", 3): "torch/ring.pickle",
}


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2]


def run(memlab, *words, code=0):
    done = subprocess.run([memlab, *words], capture_output=True, text=True)
    assert done.returncode == code, done
    return done


def make(memlab, root, scratch):
    """The dataset, and the report of each rank by (job, rank)."""
    reports = {}
    for (job, rank), name in RECORDINGS.items():
        source = root / "testdata" / name
        path = scratch / "traces" / job / f"rank{rank}{''.join(source.suffixes)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if ".rank" in source.name:
            path = path.with_name(source.name)
        shutil.copy(source, path)
        reports[job, rank] = json.loads(run(memlab, "analyze", "--json", "--top", "0", path).stdout)["traces"][0]
    damaged = scratch / "traces" / "run 7" / "rank99.pickle"
    damaged.write_bytes((root / "testdata/torch/cnn.pickle").read_bytes()[:50])
    done = run(memlab, "export", scratch / "traces", "-o", scratch / "fleet", "--partition", code=2)
    assert "rank99.pickle" in done.stderr, done
    told = json.loads((scratch / "fleet/_memlab.json").read_text())
    assert [(entry["job"], entry["rank"]) for entry in told["ranks"]] == sorted(reports), told["ranks"]
    assert [Path(entry["path"]).name for entry in told["failed"]] == ["rank99.pickle"]
    for entry in told["ranks"]:
        report = reports[entry["job"], entry["rank"]]
        assert entry["complete"] == report["complete"] and entry["events"] == report["events"], entry
        assert sorted(w["kind"] for w in entry["warnings"]) == sorted(w["kind"] for w in report["warnings"]), entry
    return reports


def devices_of(reports):
    """(job, rank, device index, its report, the trace's) in the order of the dataset."""
    for (job, rank), trace in sorted(reports.items()):
        for device in trace["devices"]:
            yield job, rank, device["device"], device, trace


def by_job(rows):
    jobs = defaultdict(list)
    for row in rows:
        jobs[row[0]].append(row)
    return jobs


def highest(pairs):
    """The rank with the largest value; of equals the lowest."""
    return min(pairs, key=lambda pair: (-pair[1], pair[0]))[0]


def check_peaks(rows, reports):
    all_ = [(job, rank, at, d["peak"]["allocated_bytes"], d["peak"]["reserved_bytes"]) for job, rank, at, d, _ in devices_of(reports)]
    medians = {job: lower_median([row[3] for row in rows]) for job, rows in by_job(all_).items()}
    expected = [(*row, row[3] - medians[row[0]]) for row in sorted(all_, key=lambda row: (-row[3], row[:3]))]
    assert rows == expected[:20], rows


def oom_time(memlab, path, scratch):
    """Unix time of the first failed request, read from the snapshot by Python's own pickle."""
    plain = scratch / "plain.pickle"
    run(memlab, "convert", path, scratch / "plain.msgpack", "--force")
    run(memlab, "convert", scratch / "plain.msgpack", plain, "--force")
    events = pickle.loads(plain.read_bytes())["device_traces"][0]
    return next(event["time_us"] for event in events if event["action"] == "oom")


def check_ooms(rows, reports, memlab, root, scratch):
    expected = []
    for job, rank, at, device, _ in devices_of(reports):
        for oom in device["ooms"][:1]:
            time = oom_time(memlab, root / "testdata" / RECORDINGS[job, rank], scratch)
            figures = [oom[name] for name in ("event", "verdict", "cause", "requested_bytes", "missing_bytes")]
            expected.append((job, rank, at, time, *figures))
    expected.sort(key=lambda row: (row[3], row[:3]))
    assert [row[:9] for row in rows] == expected and len(expected) >= 2, (rows, expected)


def held_by_line(device):
    held = {(line["file"], line["line"], line["function"]): line["held_at_peak_bytes"] for line in device["lines"]}
    held[None, None, None] = device["unattributed"]["held_at_peak_bytes"]
    return held


def check_difference(rows, reports):
    expected = {}
    for job, entries in by_job(devices_of(reports)).items():
        order = sorted(entries, key=lambda e: (-e[3]["peak"]["allocated_bytes"], e[1], e[2]))
        top, middle = order[0][3], order[len(order) // 2][3]
        held = held_by_line(top), held_by_line(middle)
        for line in held[0] | held[1]:
            pair = tuple(side.get(line, 0) for side in held)
            if pair[0] != pair[1]:
                expected[job, *line] = (*pair, pair[0] - pair[1])
        more = sum(row[6] for row in rows if row[0] == job)
        assert more == top["peak"]["allocated_bytes"] - middle["peak"]["allocated_bytes"], job
    assert {row[:4]: row[4:] for row in rows} == expected and len(rows) == len(expected) > 0, rows


def check_growth(rows, reports, singles):
    per_line = defaultdict(list)
    for job, rank, at, device, _ in devices_of(reports):
        sums = defaultdict(int)
        for row in singles[job, rank]["step_lines"].filter((pl.col("device") == at) & (pl.col("step") > 0)).iter_rows(named=True):
            sums[row["file"], row["line"], row["function"]] += row["growth_bytes"]
        told = [step["growth_bytes"] for step in device["steps"]["rows"]][1:]
        assert sum(sums.values()) == sum(told), "lines add up to the report's steps"
        for line, bytes_ in sums.items():
            if bytes_ > 0 and told:
                per_line[job, *line].append((rank, bytes_, bytes_ // len(told)))
    expected = []
    for line, grown in per_line.items():
        values = [bytes_ for _, bytes_, _ in grown]
        most = max(each for _, _, each in grown)
        expected.append((*line, len(grown), lower_median(values), max(values), most, highest([g[:2] for g in grown])))
    order = sorted(expected, key=lambda row: (-row[6], row[0], row[1] is None, row[1:4] if row[1] else ()))
    assert rows == order[:20] and len(rows) > 2, (rows, order)


def check_fragmentation(rows, reports):
    names = ("reserved_bytes", "active_bytes", "stranded_bytes", "releasable_bytes", "ratio")
    expected = [
        (job, rank, at, "peak", *(d["fragmentation"]["at_peak"][name] for name in names))
        for job, rank, at, d, _ in devices_of(reports)
    ]
    expected.sort(key=lambda row: (-row[6], row[:3]))
    assert rows == expected[:20], rows


def check_stacks(rows, reports, memlab, root):
    """Sums by stack equal those of the flame graphs' texts, which know no hash."""
    held = defaultdict(lambda: defaultdict(int))
    for job, rank in reports:
        text = run(memlab, "export", root / "testdata" / RECORDINGS[job, rank], "-o", "-", "--format", "folded").stdout
        for place, line in enumerate(text.splitlines()):
            stack, _, bytes_ = line.rpartition(" ")
            stack, device = re.subn(r"^device \d+;", "", stack)[0], stack if stack.startswith("device ") else ""
            held[job, stack][rank, device.split(";")[0]] += int(bytes_)
    sums = [(job, len(of), sum(of.values()), max(of.values())) for (job, _), of in held.items()]
    expected = sorted(sums, key=lambda row: (-row[2], row[0], row[1], row[3]))[:10]
    found = [(row[0], *row[2:5]) for row in rows]
    assert sorted(found, key=lambda row: (-row[2], row[0], row[1], row[3])) == expected, (found, expected)
    assert any(row[2] > 1 and row[1] for row in rows), "some stack is held by several ranks"
    named = [row for row in rows if row[1] and row[5]]
    assert len({row[:2] for row in rows}) == len(rows) and named, rows


def check_findings(rows, reports):
    found = defaultdict(list)
    for (job, rank), trace in reports.items():
        for finding in trace["findings"]:
            if finding["device"] in [device["device"] for device in trace["devices"]]:
                found[job, finding["rule"], finding["severity"]].append((rank, finding["bytes"]))
    expected = [
        (*key, len({rank for rank, _ in of}), len(of), max(bytes_ for _, bytes_ in of), highest(of))
        for key, of in found.items()
    ]
    expected.sort(key=lambda row: (row[0], -row[3], row[1], row[2]))
    assert rows == expected and len(rows) > 2, (rows, expected)


def check_steps(aligned, each, reports):
    steps, expected = defaultdict(list), []
    for job, rank, at, device, _ in devices_of(reports):
        for number, row in enumerate(device["steps"]["rows"]):
            steps[job, number].append((rank, row["peak_allocated_bytes"]))
            expected.append((job, rank, at, number, row["name"], row["peak_allocated_bytes"], row["growth_bytes"]))
    assert [(*row[:5], *row[6:]) for row in each] == expected and expected
    expected = []
    for (job, number), pairs in sorted(steps.items()):
        values = [value for _, value in pairs]
        expected.append((job, number, len(pairs), min(values), lower_median(values), max(values), highest(pairs)))
    assert aligned == expected, aligned


def check_categories(rows, reports):
    held = defaultdict(list)
    for job, rank, _, device, _ in devices_of(reports):
        for row in device["categories"]["rows"]:
            held[job, row["category"]].append((rank, row["live_at_end_bytes"]))
    expected = []
    for key, pairs in held.items():
        values = [value for _, value in pairs]
        expected.append((*key, len(pairs), lower_median(values), max(values), highest(pairs)))
    expected.sort(key=lambda row: (row[0], -row[4], row[1]))
    assert rows == expected and rows, (rows, expected)


def check_seconds(rows, reports):
    assert rows == sorted(rows, key=lambda row: (row[0], row[3], row[1], row[2]))
    seen = 0
    for job, rank, at, device, _ in devices_of(reports):
        own = [row for row in rows if row[:3] == (job, rank, at)]
        assert not own or rank in (3, 11), own
        if own and device["peak_event"]["allocated_bytes"] is not None:
            assert max(row[4] for row in own) == device["peak"]["allocated_bytes"], (job, rank)
            assert max(row[5] for row in own) == device["peak"]["reserved_bytes"], (job, rank)
            seen += 1
    assert seen == 3, seen


def check_incomplete(rows, reports):
    told = {row[:3]: row[3] for row in rows}
    events = {(job, rank, at): device["events"] for job, rank, at, device, _ in devices_of(reports)}
    assert told == {key: events[key] for key in told}
    for job, rank, at, _, trace in devices_of(reports):
        assert trace["complete"] or (job, rank, at) in told, (job, rank)
    assert ("two", 3, 0) in told and ("run 7", 0, 0) not in told, "the ring's beginning is lost"


def check_polars(blocks, answers):
    """Polars answers as DuckDB does."""
    start, *questions = blocks
    peaks, growth, findings = ({} for _ in questions)
    for block, space in zip(questions, (peaks, growth, findings), strict=True):
        exec(start + block, space)
    assert peaks["result"].rows() == answers[0]
    assert sorted(map(str, growth["result"].rows())) == sorted(str((*r[:5], r[6])) for r in answers[3])
    assert findings["result"].rows() == [row[:6] for row in answers[6]]


def main():
    memlab, root, scratch = (Path(argument).resolve() for argument in sys.argv[1:])
    page = (root / "docs/fleet.md").read_text()
    views, *queries = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    reports = make(memlab, root, scratch)
    singles = {}
    for (job, rank), name in RECORDINGS.items():
        folder = scratch / "single" / f"{job}-{rank}"
        run(memlab, "export", root / "testdata" / name, "-o", folder, "--table", "step_lines")
        singles[job, rank] = {"step_lines": pl.read_parquet(folder / "step_lines*.parquet")}
    os.chdir(scratch)
    database = duckdb.connect()
    database.execute(views)
    answers = [database.sql(query).fetchall() for query in queries]
    assert len(answers) == 12, len(answers)
    check_peaks(answers[0], reports)
    check_ooms(answers[1], reports, memlab, root, scratch)
    check_difference(answers[2], reports)
    check_growth(answers[3], reports, singles)
    check_fragmentation(answers[4], reports)
    check_stacks(answers[5], reports, memlab, root)
    check_findings(answers[6], reports)
    check_steps(answers[7], answers[8], reports)
    check_categories(answers[9], reports)
    check_seconds(answers[10], reports)
    check_incomplete(answers[11], reports)
    check_polars(re.findall(r"```python\n(.*?)```", page, re.DOTALL), answers)
    print(f"{len(RECORDINGS)} ranks of {len({job for job, _ in RECORDINGS})} jobs, {len(answers)} questions: {[len(rows) for rows in answers]} rows")


main()
