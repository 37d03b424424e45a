#!/usr/bin/env python3
"""A thousand ranks as one dataset: how long the export takes, and every question of docs/fleet.md in DuckDB.

    VENV/bin/python benches/fleet.py target/release/memlab [--ranks 1024] [--events 100000] [--distinct 32]
                                     [--data DIR] [--tables]

Needs the package duckdb; builds nothing. Inputs are made on first use under DIR (default: target/bench-data/fleet):
`--distinct` snapshots of testdata/generate.py with seeds of their own, converted to traces, and hard links to them
under the names of `--ranks` ranks, so that not all ranks differ: generating a thousand would take ten minutes and ten
gigabytes. One more rank is `oom` of testdata, so that the question about failures has an answer. Everything is read,
rebuilt and written for each rank all the same.

Prints wall and CPU seconds, peak memory, sizes by table, and seconds and peak memory of every question, each in a
process of its own; with --tables also what each table costs alone, on a sixteenth of the ranks. Exits 1 when a bar
does not hold: 120 s for the export from pickles and all questions together, 4 GiB, 3 s for each question.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_SECONDS, MOST_BYTES, MOST_QUERY_SECONDS = 120, 4 << 30, 3

ASK = """
import sys, time
import duckdb
views, query = sys.argv[1:]
database = duckdb.connect()
database.execute("SET threads = 2; SET enable_progress_bar = false")
database.execute(views)
started = time.perf_counter()
rows = len(database.sql(query).fetchall())
print(rows, time.perf_counter() - started)
"""


def measure(arguments, **options):
    """(what it printed, wall seconds, CPU seconds of all threads, peak bytes)."""
    started = time.perf_counter()
    child = subprocess.Popen([str(a) for a in arguments], stdout=subprocess.PIPE, text=True, **options)
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit("%s exited with %d" % (" ".join(map(str, arguments))[:200], child.returncode))
    return printed, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def inputs(memlab, ranks, events, distinct, folder):
    """Folders of as many pickles and as many traces; made unless they are there."""
    made = folder / "made"
    made.mkdir(parents=True, exist_ok=True)
    folders = {}
    for ending in ("pickle", "msgpack"):
        folders[ending] = folder / ("%d-%d-%s" % (ranks, events, ending)) / "run"
        shutil.rmtree(folders[ending], ignore_errors=True)
        folders[ending].mkdir(parents=True)
    for seed in range(min(distinct, ranks)):
        pickle, trace = (made / ("%d-%d.%s" % (events, seed, ending)) for ending in ("pickle", "msgpack"))
        if not trace.exists():
            program = [sys.executable, ROOT / "testdata/generate.py", str(events), pickle, "--seed", str(seed + 1)]
            subprocess.run(program, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run([memlab, "convert", "--quiet", "--force", pickle, trace], check=True)
        for rank in range(seed, ranks, distinct):
            for file in (pickle, trace):
                os.link(file, folders[file.suffix[1:]] / ("rank%d%s" % (rank, file.suffix)))
    for target in folders.values():
        shutil.copy(ROOT / "testdata/torch/oom.pickle.gz", target / ("rank%d.pickle.gz" % ranks))
    return folders


def export(memlab, source, target, *words):
    shutil.rmtree(target, ignore_errors=True)
    _, wall, cpu, peak = measure([memlab, "export", source, "-o", target, "--partition", "--quiet", *words])
    return wall, cpu, peak


def sizes(dataset):
    """Bytes by table."""
    of = Counter()
    for path in dataset.glob("job=*/rank=*/*.parquet"):
        of[path.stem] += path.stat().st_size
    return of


def told(label, wall, cpu, peak, note=""):
    print("| %s | %.1f | %.1f | %.0f | %s |" % (label, wall, cpu, peak / 2**20, note), flush=True)


def each_table(memlab, source, folder, tables):
    """What each table costs alone, on every sixteenth rank."""
    part = folder / "part" / "run"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for path in sorted(source.iterdir())[::16]:
        os.link(path, part / path.name)
    for table in sorted(tables):
        told("%s alone, %d ranks" % (table, len(list(part.iterdir()))), *export(memlab, part, folder / "one", "--table", table))


def questions(page, folder):
    """Asks everything; (seconds, peak) of each."""
    views, *queries = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    titles = re.findall(r"^### (.*\?)$", page, re.MULTILINE)
    results = []
    for title, query in zip(titles, queries, strict=True):
        printed, _, cpu, peak = measure([sys.executable, "-c", ASK, views, query], cwd=folder)
        rows, seconds = printed.split()
        results.append((float(seconds), peak))
        told(title, float(seconds), cpu, peak, rows + " rows")
    return results


def arguments():
    """What every benchmark over these ranks can be told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("memlab", type=Path)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--distinct", type=int, default=32)
    parser.add_argument("--data", type=Path, default=ROOT / "target/bench-data/fleet")
    return parser


def main():
    parser = arguments()
    parser.add_argument("--tables", action="store_true")
    args = parser.parse_args()
    memlab, folder = args.memlab.resolve(), args.data.resolve()
    sources = inputs(memlab, args.ranks, args.events, args.distinct, folder)
    dataset = folder / "fleet"
    print("| what | wall, s | CPU, s | peak, MiB | |\n| --- | ---: | ---: | ---: | ---: |")
    from_trace = export(memlab, sources["msgpack"], dataset)
    told("export, from traces", *from_trace)
    from_pickle = export(memlab, sources["pickle"], dataset)
    of = sizes(dataset)
    told("export, from pickles", *from_pickle, "%.0f MB, %d files" % (sum(of.values()) / 1e6, len(of) * (args.ranks + 1)))
    if args.tables:
        each_table(memlab, sources["msgpack"], folder, of)
    asked = questions((ROOT / "docs/fleet.md").read_text(), folder)
    print("\nMB by table: " + ", ".join("%s %.1f" % (table, of[table] / 1e6) for table in sorted(of, key=of.get, reverse=True)))
    whole = from_pickle[0] + sum(seconds for seconds, _ in asked)
    slowest, peak = max(seconds for seconds, _ in asked), max([from_pickle[2], *(peak for _, peak in asked)])
    bars = [
        ("exported and asked everything", whole, MOST_SECONDS, "s"),
        ("slowest question", slowest, MOST_QUERY_SECONDS, "s"),
        ("peak memory", peak / 2**30, MOST_BYTES / 2**30, "GiB"),
    ]
    for name, value, most, unit in bars:
        print("%s: %.2f %s of %.0f: %s" % (name, value, unit, most, "holds" if value < most else "DOES NOT HOLD"))
    sys.exit(any(value >= most for _, value, most, _ in bars))


if __name__ == "__main__":
    main()
