"""The table of ranks: one row each, with the figures that `memlab analyze` puts side by side.

Owns which device speaks for a rank and what is taken from which table. No figure is computed anew. What rules find
by comparing ranks (`rank-imbalance`) is not counted among `findings`: it is in no file's tables.
"""

from pyspark.sql import functions as f

from .middle import of_array

KEYS = ["job", "rank", "device"]
# Times before 2000 count from some other beginning than 1970.
_EARLIEST_US = 946_684_800_000_000
_COUNTERS = ("requested", "allocated", "active", "reserved")


def of_main(frame, ranks):
    """The rows of `frame` that are of a rank's main device."""
    return frame.join(f.broadcast(ranks.select(*KEYS)), KEYS)


def ranks(result):
    """See `Result.ranks`. Every table is read once."""
    rows = result.files.select("job", "rank", "path", "events", "complete")
    rows = rows.join(f.broadcast(_devices(result.trace)), ["job", "rank"], "left")
    for found in (_unused(result.fragmentation), _steps(result.steps), _ooms(result.ooms)):
        rows = rows.join(f.broadcast(found), KEYS, "left")
    rows = rows.join(f.broadcast(_findings(result.findings)), ["job", "rank"], "left")
    rows = rows.withColumn("oom_step", _steps_over()).withColumn("growth", _growth())
    growth = ("bytes", "bytes_per_step", "line")
    rows = rows.select("*", *(f.col("growth")[name].alias(f"growth_{name}") for name in growth))
    rows = rows.drop("growth", "growths", "step_ends")
    counted = [name for name in rows.columns if name.startswith(("peak_", "end_", "findings_"))]
    nothing = {name: 0 for name in ("device", "steps", "unused_at_peak_bytes", *counted) if name not in ("peak_active_event",)}
    return rows.fillna({**nothing, "steps_source": "none", "from_the_start": False})


def _devices(trace):
    """The main device of each rank, on which most is allocated, and what the process holds on others."""
    of_rank = ("device_name", "total_bytes", "from_the_start", "world_size", "peak_active_event")
    peaks = [f"{moment}_{counter}_bytes" for moment in ("peak", "end") for counter in _COUNTERS]
    order = ("peak_allocated_bytes", "events", "device")
    held = f.struct("device", "peak_allocated_bytes", "peak_reserved_bytes")
    main = f.max(f.struct(f.struct(*order).alias("order"), *of_rank, *peaks))
    found = trace.groupBy("job", "rank").agg(main.alias("main"), f.sort_array(f.collect_list(held)).alias("all"))
    found = found.select("job", "rank", f.col("main.order.device").alias("device"), "main.*", "all").drop("order")

    def is_other(one):
        holds = (one["peak_allocated_bytes"] > 0) | (one["peak_reserved_bytes"] > 0)
        return holds & (one["device"] != f.col("device"))

    return found.withColumn("other_devices", f.filter("all", is_other)).drop("all")


def _unused(fragmentation):
    peak = fragmentation.where("moment = 'peak'")
    return peak.select(*KEYS, (f.col("releasable_bytes") + f.col("stranded_bytes")).alias("unused_at_peak_bytes"))


def _steps(steps):
    found = steps.groupBy(*KEYS).agg(
        f.min("source").alias("steps_source"),
        f.count(f.lit(1)).alias("steps"),
        f.collect_list("peak_allocated_bytes").alias("peaks"),
        f.sort_array(f.collect_list(f.struct("step", "last_event"))).alias("step_ends"),
    )
    median, highest = of_array(f.col("peaks")), f.array_max("peaks")
    kept = found.withColumn("step_peak_median_bytes", median).withColumn("step_peak_max_bytes", highest)
    return kept.drop("peaks")


def _ooms(ooms):
    """The first failed request of each device."""
    first = f.struct(
        "oom",
        f.col("event").alias("oom_event"),
        f.col("requested_bytes").alias("oom_requested_bytes"),
        f.col("verdict").alias("oom_verdict"),
        f.when(f.col("file").isNotNull(), label()).alias("oom_line"),
        f.when(f.col("time_us") >= _EARLIEST_US, f.col("time_us")).alias("oom_time_us"),
    )
    found = ooms.groupBy(*KEYS).agg(f.count(f.lit(1)).alias("ooms"), f.min(first).alias("first"))
    return found.select(*KEYS, "ooms", "first.*").drop("oom")


def _steps_over():
    """How many steps were over before the first failed request; null without steps."""
    nothing = f.struct(f.lit(-1).cast("bigint").alias("end"), f.lit(0).cast("bigint").alias("over"))

    def count(so_far, step):
        # A step without events ends where the one before it does.
        end = f.coalesce(step["last_event"], so_far["end"])
        is_over = (end < f.col("oom_event")).cast("bigint")
        return f.struct(end.alias("end"), (so_far["over"] + is_over).alias("over"))

    return f.when(f.col("oom_event").isNotNull(), f.aggregate("step_ends", nothing, count)["over"])


def label():
    """`train.py:100 step`, as reports name a line, from `file`, `line` and `function`."""
    line = f.when(f.col("line") > 0, f.concat(f.lit(":"), f.col("line").cast("string")))
    function = f.when(f.col("function") != "", f.concat(f.lit(" "), f.col("function")))
    return f.concat(f.col("file"), f.coalesce(line, f.lit("")), f.coalesce(function, f.lit("")))


def _findings(findings):
    """Findings by severity, and all of the rule `growth`."""
    counts = [f.count_if(f.col("severity") == name).alias(f"findings_{name}") for name in ("error", "warning", "info")]
    slope = f.get_json_object("evidence", "$.slope_bytes_per_step").cast("double")
    growth = f.struct(
        "bytes",
        "finding",
        "device",
        f.round(slope).cast("bigint").alias("bytes_per_step"),
        f.when(f.col("file").isNotNull(), label()).alias("line"),
    )
    growths = f.collect_list(f.when(f.col("rule") == "growth", growth)).alias("growths")
    return findings.groupBy("job", "rank").agg(*counts, growths)


def _growth():
    """That of the main device; of several the largest, of equals the last."""
    return f.array_max(f.filter("growths", lambda one: one["device"] == f.col("device")))
