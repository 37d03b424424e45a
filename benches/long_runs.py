#!/usr/bin/env python3
"""How cost grows with the length of a recording: 1, 10 and 100 million events, against their right values.

    python3 benches/long_runs.py target/release/memlab [--events 1000000,10000000,100000000] [--repeat 2]

Makes its traces on first use under target/bench-data (`cargo bench --bench long`, or --generator PROGRAM). Prints
a Markdown table of `analyze --json` (at once, and in pieces where it does not fit into --budget), `report`, `lines`
and `info`, checks every peak and end figure against what
the generator counted, then the bars; exits 1 when one does not hold. Best of `--repeat` runs. The bars divide by
CPU time: wall time on a machine that others use says little.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from whole_process import ROOT, machine, measure

#: What is of all events also when a trace is read in pieces.
WHOLE = ("events", "peak", "peak_event", "end", "initial", "fragmentation", "lines", "unattributed", "ooms", "pools")
COUNTERS = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")


def trace_of(events, folder, generator):
    """The trace of so many events and its right values, made if they are not there."""
    path = folder / ("long-%d.msgpack" % events)
    values = path.with_suffix(".json")
    if not values.exists():
        folder.mkdir(parents=True, exist_ok=True)
        program = [generator] if generator else ["cargo", "bench", "--quiet", "--bench", "long", "--"]
        subprocess.run([*program, str(events), str(path)], check=True, cwd=ROOT)
    return path, json.loads(values.read_text())


def check(report, right):
    """Names what differs between the report of a trace and its right values."""
    (device,) = report["traces"][0]["devices"]
    wrong = [] if device["events"] == right["events"] else ["events"]
    for counter in COUNTERS:
        for key, part in (("peak", "peak"), ("end", "current")):
            if device[key][counter] != right["stats"]["%s.all.%s" % (counter, part)]:
                wrong.append("%s of %s" % (key, counter))
    return wrong + [warning["text"] for warning in report["traces"][0]["warnings"]]


def differences(whole, told, name):
    """Figures of all events that are others in pieces than at once."""
    (one,), (many,) = whole["traces"][0]["devices"], told["devices"]
    return ["%s in pieces: %s" % (name, key) for key in WHOLE if one[key] != many[key]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("memlab", type=Path)
    parser.add_argument("--events", default="1000000,10000000,100000000")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--data", type=Path, default=ROOT / "target/bench-data")
    parser.add_argument("--generator", help="the program of `cargo bench --bench long`, if it is built already")
    parser.add_argument("--budget", default="1GiB", help="memory for the run in pieces")
    options = parser.parse_args()
    memlab, data = options.memlab.resolve(), options.data.resolve()
    print("%s\n" % machine())
    print("| what | events | wall, s | CPU, s | M events/s | M events per CPU s | peak, MiB | bytes an event |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rates, peaks, infos, in_pieces, wrong = {}, {}, {}, {}, []
    for events in map(int, options.events.split(",")):
        path, right = trace_of(events, data, options.generator)
        page, report, pieces = data / "long.html", data / "long-report.json", data / "long-pieces.json"
        for what, arguments in (
            ("analyze --json", ["analyze", "--json", path]),
            ("report", ["report", path, "-o", page, "--force", "--quiet"]),
            ("lines", ["lines", path]),
            ("info", ["info", path]),
            ("in pieces", ["analyze", "--json", "--memory-budget", options.budget, path]),
        ):
            output = {"analyze --json": report, "in pieces": pieces}.get(what, os.devnull)
            run = measure([memlab, *arguments], options.repeat, output)
            count = right["events"]
            cells = (what, f"{events:,}", "%.2f" % run.wall, "%.2f" % run.cpu, "%.1f" % (count / run.wall / 1e6))
            cells += ("%.1f" % (count / run.cpu / 1e6), "%.0f" % (run.peak / 2**20), "%.1f" % (run.peak / count))
            print("| " + " | ".join(cells) + " |", flush=True)
            if what == "analyze --json":
                wrong += ["%s: %s" % (path.name, text) for text in check(json.loads(report.read_text()), right)]
                rates[events], peaks[events] = count / run.cpu, run.peak
            if what == "in pieces":
                (told,) = json.loads(pieces.read_text())["traces"]
                if any(warning["kind"] == "read-in-pieces" for warning in told["warnings"]):
                    in_pieces[events] = run.peak
                    wrong += differences(json.loads(report.read_text()), told, path.name)
            if what == "info":
                infos[events] = run.cpu
    bars = [("%d events: peak GiB" % events, peak / 2**30, "<", 8) for events, peak in peaks.items()]
    bars += [("%d events: info, CPU seconds" % events, cpu, "<", 0.1) for events, cpu in infos.items()]
    bars += [("%d events in pieces: peak GiB" % events, peak / 2**30, "<", 1) for events, peak in in_pieces.items()]
    base = rates.get(10_000_000)
    for events, rate in rates.items():
        if base and events > 10_000_000:
            bars.append(("%d events: rate against that of 10 million" % events, rate / base, ">=", 0.8))
    bars.append(("figures that differ from their right values", len(wrong), "<", 1))
    print("\n| bar | measured | holds |\n| --- | ---: | --- |")
    failed = 0
    for label, value, sign, limit in bars:
        holds = value >= limit if sign == ">=" else value < limit
        failed += not holds
        print("| %s %s %g | %.2f | %s |" % (label, sign, limit, value, "yes" if holds else "**no**"))
    for what in wrong:
        print("\nwrong: %s" % what)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
