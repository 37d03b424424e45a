"""Exports re-read with nothing but the standard library: their totals are those of `analyze --json`."""

import gzip
import json
import pickle
import re
from collections import Counter

import pytest

from conftest import ROOT

TRACES = ["torch/gpt.pickle.gz", "torch/oom.pickle.gz", "torch/varlen.default.pickle.gz", "emitter/gpt.msgpack"]
# The pattern of flamegraph.pl.
FOLDED = re.compile(r"^(.*)\s+?(\d+(?:\.\d*)?)$")


@pytest.fixture(scope="module", params=TRACES)
def exported(request, analyzer, tmp_path_factory):
    trace, folder = ROOT / "testdata" / request.param, tmp_path_factory.mktemp("exports")
    device = json.loads(analyzer("analyze", trace, "--json"))["traces"][0]["devices"][0]

    def export(name, *more):
        analyzer("export", trace, "-q", "-o", folder / name, *more)
        return folder / name

    return device, export


def of_all_allocations(device):
    return sum(row["total_bytes"] for row in [*device["lines"], device["unattributed"]])


def folded(path):
    stacks = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        frames, value = FOLDED.match(line).groups()
        stacks[tuple(frames.split(";"))] += int(value)
    return stacks


def test_folded_stacks_add_up(exported):
    device, export = exported
    wanted = {
        "peak": device["peak"]["allocated_bytes"],
        "end": device["end"]["allocated_bytes"],
        "total": of_all_allocations(device),
    }
    if device["ooms"]:
        wanted["oom"] = device["ooms"][-1]["allocated_bytes"]
    for what, total in wanted.items():
        assert folded(export(f"{what}.folded", "--what", what)).total() == total, what


def test_speedscope_profiles_add_up_and_have_the_folded_stacks(exported):
    device, export = exported
    file = json.loads(export("x.speedscope.json").read_text(encoding="utf-8"))
    peak, total = file["profiles"]
    assert sum(peak["weights"]) == peak["endValue"] == device["peak"]["allocated_bytes"]
    assert sum(total["weights"]) == total["endValue"] == of_all_allocations(device)

    def name(number):
        frame = file["shared"]["frames"][number]
        line = f":{frame['line']}" if "line" in frame else ""
        return f"{frame['name']} ({frame['file']}{line})" if "file" in frame else frame["name"]

    stacks = Counter()
    for sample, weight in zip(peak["samples"], peak["weights"], strict=True):
        stacks[tuple(map(name, sample))] += weight
    assert stacks == folded(export("same.folded"))


def test_chrome_counters_reach_the_peaks_and_end_at_the_end(exported):
    device, export = exported
    events = json.loads(export("x.chrome.json").read_text(encoding="utf-8"))["traceEvents"]
    for counter in ("requested", "allocated", "active", "reserved"):
        points = [event for event in events if event["ph"] == "C" and event["name"] == counter]
        assert max(point["args"]["bytes"] for point in points) == device["peak"][f"{counter}_bytes"]
        assert points[-1]["args"]["bytes"] == device["end"][f"{counter}_bytes"]
        assert [point["ts"] for point in points] == sorted(point["ts"] for point in points)
    assert sum(event["ph"] == "X" for event in events) == device["steps"]["count"]
    assert sum(event["name"] == "CUDA out of memory" for event in events) == len(device["ooms"])


def test_the_snapshot_is_a_plain_pickle_with_every_event(exported):
    device, export = exported
    snapshot = pickle.loads(gzip.decompress(export("x.pickle.gz").read_bytes()))
    assert len(snapshot["device_traces"][0]) == device["events"]
    live = [
        block["size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]
    assert sum(live) == device["end"]["allocated_bytes"]
