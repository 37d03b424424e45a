"""Reads `memlab export --format pprof` with the schema of pprof and holds its sums against memlab's report."""

import gzip
import sys

import common

FOLDER, TRACES = common.traces()
sys.path.insert(0, FOLDER)
import profile_pb2  # noqa: E402  (made by run.sh from profile.proto)


def check(trace):
    packed = common.exported(trace, "pprof", FOLDER)
    profile = profile_pb2.Profile.FromString(gzip.decompress(packed))
    common.all_known(profile)
    text = profile.string_table
    assert text[0] == "" and len(set(text)) == len(text), "texts stand once"
    kinds = [(text[kind.type], text[kind.unit]) for kind in profile.sample_type]
    assert kinds == [
        ("live_space", "bytes"),
        ("live_objects", "count"),
        ("alloc_space", "bytes"),
        ("alloc_objects", "count"),
    ], kinds
    assert text[profile.default_sample_type] == "live_space"
    functions = {function.id: function for function in profile.function}
    locations = {location.id: location for location in profile.location}
    assert 0 not in functions and 0 not in locations
    for location in profile.location:
        assert all(line.function_id in functions for line in location.line)
    sums = {}
    for sample in profile.sample:
        assert sample.location_id and all(at in locations for at in sample.location_id)
        (label,) = sample.label
        assert text[label.key] == "device" and text[label.str].startswith("cuda:")
        of_device = sums.setdefault(int(text[label.str].removeprefix("cuda:")), [0, 0, 0, 0])
        for at, value in enumerate(sample.value):
            of_device[at] += value
    for device in common.devices(trace):
        live, _, total, count = sums.get(device["device"], [0, 0, 0, 0])
        rows = device["lines"] + [device["unattributed"]]
        assert live == device["peak"]["allocated_bytes"], (trace, live)
        assert total == sum(row["total_bytes"] for row in rows), (trace, total)
        assert count == sum(row["allocations"] for row in rows), (trace, count)
    assert any("memlab" in text[at] for at in profile.comment)
    print(f"pprof: {trace}: {len(profile.sample)} stacks, {len(packed)} bytes, sums equal")


for path in TRACES:
    check(path)
