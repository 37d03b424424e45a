"""Ranks that stand apart, and the lines that make the difference: the judgement of docs/ranks.md, as queries.

Owns the thresholds' second home: they are those of `src/analysis/ranks/outliers.rs`, and tests hold both together.
"""

from pyspark.sql import Window
from pyspark.sql import functions as f

from .middle import median
from .ranks import KEYS, of_main

# Distances from the median in median deviations: 3.5 standard deviations, were ranks spread normally.
_DEVIATIONS = 3.5 * 1.4826
_LEAST_SHARE, _LEAST_BYTES = 20, 1 << 20
_LEAST_PART, _MOST_LINES = 100, 10
# In the order in which they are tried: what is allocated says most.
COUNTERS = {
    "allocated": "peak_allocated_bytes",
    "active": "peak_active_bytes",
    "reserved": "peak_reserved_bytes",
    "unused": "unused_at_peak_bytes",
    "end": "end_allocated_bytes",
}
_PEAKS = {name: f"peak_{name}_bytes" for name in ("requested", "allocated", "active", "reserved")}


def _middles(ranks, columns):
    """`job`, and `median_NAME`, `deviation_NAME` of every column."""
    middles = ranks.groupBy("job").agg(*(median(f.col(of)).alias(f"median_{name}") for name, of in columns.items()))
    off = [f.abs(f.col(of) - f.col(f"median_{name}")).alias(f"off_{name}") for name, of in columns.items()]
    distances = ranks.join(f.broadcast(middles), "job").select("job", *off)
    usual = [median(f.col(f"off_{name}")).alias(f"deviation_{name}") for name in columns]
    return middles.join(distances.groupBy("job").agg(*usual), "job")


def medians(ranks):
    """See `Result.medians`."""
    counts = ranks.groupBy("job").agg(f.count(f.lit(1)).alias("ranks"), f.sum("events").alias("events"))
    of = _middles(ranks, _PEAKS)
    named = [f.col(f"{kind}_{name}").alias(f"{kind}_peak_{name}_bytes") for kind in ("median", "deviation") for name in _PEAKS]
    return counts.join(of, "job").select("job", "ranks", "events", *named)


def outliers(ranks):
    """See `Result.outliers`."""
    with_middles = ranks.join(f.broadcast(_middles(ranks, COUNTERS)), "job")
    found = f.array(*(_apart(at, name, of) for at, (name, of) in enumerate(COUNTERS.items())))
    found = f.filter(found, lambda one: one.isNotNull())
    rows = with_middles.withColumn("found", found).where(f.size("found") > 0)
    first = f.col("found")[0]
    names = ("counter", "bytes", "median_bytes", "median_deviation_bytes", "difference_bytes")
    also = f.transform(f.slice("found", 2, len(COUNTERS)), lambda one: one["counter"])
    return rows.select("job", "rank", "path", "device", *(first[name].alias(name) for name in names), also.alias("also"))


def _apart(at, name, of):
    """How a rank differs by one counter, or null."""
    value, middle, usual = f.col(of), f.col(f"median_{name}"), f.col(f"deviation_{name}")
    off = f.abs(value - middle)
    is_far = off.cast("double") > usual.cast("double") * f.lit(_DEVIATIONS)
    is_much = (off >= _LEAST_BYTES) & (off >= f.expr(f"median_{name} DIV {_LEAST_SHARE}"))
    told = f.struct(
        f.lit(name).alias("counter"),
        value.alias("bytes"),
        middle.alias("median_bytes"),
        usual.alias("median_deviation_bytes"),
        (value - middle).alias("difference_bytes"),
    )
    return f.when(is_far & is_much, told)


LINE = ["file", "line", "function"]


def at_peaks(result):
    """What every line holds on the main device of its rank when allocated bytes peak; no row without a line."""
    held = of_main(result.lines.where("file IS NOT NULL"), result.ranks)
    return _by_line(held, "held_at_peak_bytes")


def _by_line(rows, bytes_):
    line = [f.coalesce("line", f.lit(0)).alias("line"), f.coalesce("function", f.lit("")).alias("function")]
    rows = rows.select("job", "rank", "file", *line, f.col(bytes_).alias("bytes"))
    return rows.groupBy("job", "rank", *LINE).agg(f.sum("bytes").alias("bytes")).where("bytes > 0")


def _at_active_peaks(result):
    """The same when active bytes peak, of those ranks whose active peak is much higher than the allocated one."""
    far = result.ranks.where("peak_active_bytes - peak_allocated_bytes >= peak_active_bytes DIV 20")
    far = far.select(*KEYS, f.coalesce("peak_active_event", f.lit(-1)).alias("peak"))
    rows = result.allocations.where("file IS NOT NULL").join(f.broadcast(far), KEYS)
    rows = rows.where("alloc_event IS NULL OR alloc_event <= peak")
    rows = rows.where("free_completed_event IS NULL OR free_completed_event > peak")
    return _by_line(rows, "block_bytes"), far.select("job", "rank")


def lines(result):
    """See `Result.outlier_lines`."""
    ranks, found, usual = result.ranks, result.outliers, result.at_peaks
    others = _of(ranks, found.where("counter != 'active'"), usual, f.col("peak_allocated_bytes"))
    if not found.where("counter = 'active'").head(1):
        return others
    active, far = _at_active_peaks(result)
    rest = usual.join(f.broadcast(far), ["job", "rank"], "left_anti")
    with_peak = ranks.join(f.broadcast(far.withColumn("far", f.lit(True))), ["job", "rank"], "left")
    peak = f.when(f.col("far"), f.col("peak_active_bytes")).otherwise(f.col("peak_allocated_bytes"))
    return others.unionByName(_of(with_peak, found.where("counter = 'active'"), rest.unionByName(active), peak))


def _of(ranks, found, held, peak):
    """Lines of the outliers `found`, where ranks hold `held` by line, of `peak` bytes."""
    counts = ranks.groupBy("job").agg(f.count(f.lit(1)).alias("count"))
    by_line = held.join(f.broadcast(counts), "job").groupBy("job", *LINE)
    middles = by_line.agg(median(f.col("bytes"), f.max("count")).alias("median_bytes"))
    keys = ["job", "rank", "counter", "difference_bytes"]
    pairs = found.select(*keys).withColumnRenamed("difference_bytes", "whole").join(f.broadcast(middles), "job")
    own = f.coalesce("bytes", f.lit(0))
    off = own - f.col("median_bytes")
    pairs = pairs.join(held, ["job", "rank", *LINE], "left").select(
        "job", "rank", "counter", "whole", *LINE, own.alias("bytes"), "median_bytes", off.alias("difference_bytes")
    )
    same_way = (f.col("difference_bytes") > 0) == (f.col("whole") >= 0)
    size, whole = f.abs("difference_bytes"), f.expr(f"abs(whole) DIV {_LEAST_PART}")
    pairs = pairs.where((f.col("difference_bytes") != 0) & same_way & (size >= whole)).drop("whole")
    order = Window.partitionBy("job", "rank").orderBy(f.desc(f.abs("difference_bytes")), *LINE)
    named = pairs.withColumn("place", f.row_number().over(order)).where(f.col("place") <= _MOST_LINES)
    return named.unionByName(_without_line(ranks, found, held, peak))


def _without_line(ranks, found, held, peak):
    """What has no line: on each outlier, and the median of all ranks."""
    sums = held.groupBy("job", "rank").agg(f.sum("bytes").alias("with_line"))
    rows = ranks.join(sums, ["job", "rank"], "left")
    rest = f.greatest(peak - f.coalesce("with_line", f.lit(0)), f.lit(0))
    rows = rows.select("job", "rank", rest.alias("bytes"))
    middles = rows.groupBy("job").agg(median(f.col("bytes")).alias("median_bytes"))
    rows = rows.join(f.broadcast(middles), "job").join(found.select("job", "rank", "counter"), ["job", "rank"])
    return rows.select(
        "job",
        "rank",
        "counter",
        f.lit(None).cast("string").alias("file"),
        f.lit(None).cast("bigint").alias("line"),
        f.lit(None).cast("string").alias("function"),
        "bytes",
        "median_bytes",
        (f.col("bytes") - f.col("median_bytes")).alias("difference_bytes"),
        f.lit(None).cast("int").alias("place"),
    )
