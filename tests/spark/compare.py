"""What Spark says beside what the program says."""

import json

import polars as pl

PATTERNS = ("address", "stream", "main_stream")


def exported(dataset, table):
    """A table of a dataset that `memlab export --partition` wrote, in the types of docs/spark.md."""
    rows = pl.read_parquet(
        f"{dataset}/job=*/rank=*/{table}.parquet",
        hive_partitioning=True,
        hive_schema={"job": pl.String, "rank": pl.Int64},
    )
    return _sorted(rows)


def _sorted(rows):
    """In one order and one set of types; no cast here loses anything: they are strict."""
    kind = lambda name: pl.String if name in PATTERNS else pl.Int64
    numbers = [pl.col(n).cast(kind(n)) for n, t in rows.schema.items() if t.is_numeric() and not t.is_float()]
    rows = rows.with_columns(numbers).select(sorted(rows.columns))
    return rows.sort(rows.columns)


def assert_tables(result, dataset, folder, tables):
    """Every row and every value of `tables` is that of the program's own dataset."""
    for table in tables:
        result.table(table).write.parquet(str(folder / table))
        ours = _sorted(pl.read_parquet(f"{folder}/{table}/*.parquet", hive_partitioning=False))
        theirs = exported(dataset, table)
        assert ours.columns == theirs.columns, table
        assert ours.height == theirs.height and ours.equals(theirs), table


def rows(frame):
    return [row.asDict(recursive=True) for row in frame.collect()]


def assert_ranks(found, told):
    """The table of ranks is that of `analyze --json DIR`."""
    comparing = {(f["rank"], f["severity"]) for f in told["findings"] if f["rule"] == "rank-imbalance"}
    found = sorted(found, key=lambda row: row["rank"])
    assert [row["rank"] for row in found] == [row["rank"] for row in told["rows"]]
    for ours, theirs in zip(found, told["rows"]):
        for key in ("path", "device", "device_name", "total_bytes", "events", "complete", "from_the_start"):
            assert ours[key] == theirs[key], (key, ours, theirs)
        for moment in ("peak", "end"):
            assert {key: ours[f"{moment}_{key}"] for key in theirs[moment]} == theirs[moment]
        assert ours["unused_at_peak_bytes"] == theirs["unused_at_peak_bytes"]
        steps = {"source": ours["steps_source"], "count": ours["steps"]}
        steps |= {f"peak_{of}_bytes": ours[f"step_peak_{of}_bytes"] for of in ("median", "max")}
        assert steps == theirs["steps"]
        oom = {key: ours[f"oom_{key}"] for key in theirs["oom"] or {} if key != "count"}
        assert ({"count": ours["ooms"], **oom} if oom else None) == theirs["oom"]
        growth = {key: ours[f"growth_{key}"] for key in ("bytes", "bytes_per_step", "line")}
        assert (growth if growth["bytes"] is not None else None) == theirs["growth"]
        of_comparing = {key: (theirs["rank"], key) in comparing for key in theirs["findings"]}
        counts = {key: ours[f"findings_{key}"] + of_comparing[key] for key in theirs["findings"]}
        assert counts == theirs["findings"], theirs["path"]
        assert (ours["other_devices"] or []) == theirs["other_devices"]


def assert_middles(found, told):
    (row,) = found
    assert (row["ranks"], row["events"]) == (told["ranks"], told["events"])
    for ours, theirs in (("median", "median_peak"), ("deviation", "median_deviation")):
        assert {key: row[f"{ours}_peak_{key}"] for key in told[theirs]} == told[theirs]


def assert_outliers(found, lines, told):
    """Who stands apart, and by which lines."""
    theirs = {outlier["rank"]: outlier for outlier in told["outliers"]}
    assert {row["rank"] for row in found} == set(theirs) and len(found) == len(theirs)
    for row in found:
        outlier = theirs[row["rank"]]
        keys = ("path", "counter", "also", "bytes", "median_bytes", "median_deviation_bytes", "difference_bytes")
        assert {key: row[key] for key in keys} == {key: outlier[key] for key in keys}
        own = sorted((line for line in lines if line["rank"] == row["rank"] and line["place"]), key=lambda l: l["place"])
        assert [{key: line[key] for key in outlier["lines"][0]} for line in own] == outlier["lines"], row["rank"]
        (rest,) = (line for line in lines if line["rank"] == row["rank"] and line["place"] is None)
        assert rest["difference_bytes"] == outlier["no_line_difference_bytes"]


def assert_failures(found, told):
    """Who failed first, and how that is known."""
    failure = told["failure"]
    found = sorted(found, key=lambda row: row["place"])
    assert [row["rank"] for row in found] == [rank["rank"] for rank in failure["ranks"]]
    assert [row["after_first_us"] for row in found] == [rank["after_first_us"] for rank in failure["ranks"]]
    assert {row["known_by"] for row in found} == {failure["known_by"]}
    first = [row["rank"] for row in found if row["is_first"]]
    assert first == ([failure["first"]["rank"]] if failure["first"] else [])


def assert_steps(found, told):
    found = sorted(found, key=lambda row: row["step"])[: len(told["steps"])]
    assert [{key: row[key] for key in told["steps"][0]} for row in found] == told["steps"]


def manifest(folder):
    return json.loads((folder / "_memlab.json").read_text())
