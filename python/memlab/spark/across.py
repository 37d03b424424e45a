"""What is asked of all ranks of a job together: who failed first, steps and lines side by side.

Owns these queries. A row of a rank speaks of its main device; bytes of different ranks are never added up.
"""

from pyspark.sql import Window
from pyspark.sql import functions as f

from .middle import median
from .outliers import LINE
from .ranks import of_main


def failures(ranks):
    """See `Result.failures`: by time where every failure has one, else by the steps that were over."""
    failed = ranks.where("ooms IS NOT NULL")
    job = Window.partitionBy("job")
    count = f.count(f.lit(1)).over(job)
    has_times = f.count("oom_time_us").over(job) == count
    has_steps = f.count("oom_step").over(job) == count
    failed = failed.withColumn("by_time", has_times & (count > 1))
    failed = failed.withColumn("by_step", ~f.col("by_time") & has_steps & (count > 1))
    key = f.when(f.col("by_time"), f.col("oom_time_us")).when(f.col("by_step"), f.col("oom_step")).otherwise(0)
    failed = failed.withColumn("key", key)
    order = Window.partitionBy("job").orderBy("key", "rank")
    first = f.min("key").over(job)
    # Whether no other failed as early as the first.
    is_known = f.count_if(f.col("key") == f.col("first")).over(job) == 1
    failed = failed.withColumn("first", first).withColumn("alone", is_known).withColumn("place", f.row_number().over(order))
    known_by = (
        f.when(f.count(f.lit(1)).over(job) == 1, "only")
        .when(f.col("by_time"), "time")
        .when(f.col("by_step") & f.col("alone"), "step")
        .otherwise("unknown")
    )
    known = f.col("known_by").isin("only", "step") | ((f.col("known_by") == "time") & f.col("alone"))
    rows = failed.withColumn("known_by", known_by)
    after = f.when(f.col("by_time"), f.col("key") - f.col("first"))
    return rows.select(
        "job",
        "place",
        "rank",
        "path",
        "device",
        "known_by",
        ((f.col("place") == 1) & known).alias("is_first"),
        after.alias("after_first_us"),
        *(name for name in rows.columns if name == "ooms" or name.startswith("oom_")),
    )


def steps(result):
    """See `Result.steps_across`. Steps of different ranks are matched by their number."""
    rows = of_main(result.steps, result.ranks)
    highest = f.max_by("rank", f.struct("peak_allocated_bytes", -f.col("rank")))
    found = rows.groupBy("job", "step").agg(
        f.count(f.lit(1)).alias("ranks"),
        f.min("peak_allocated_bytes").alias("min_bytes"),
        median(f.col("peak_allocated_bytes")).alias("median_bytes"),
        f.max("peak_allocated_bytes").alias("max_bytes"),
        highest.alias("max_rank"),
    )
    return found.where("ranks > 1")


def lines(result):
    """See `Result.lines_across`. Where a rank does not have the line, it counts as nothing in the median."""
    counts = result.files.groupBy("job").agg(f.count(f.lit(1)).alias("count"))
    highest = f.max_by("rank", f.struct("bytes", -f.col("rank")))
    return (
        result.at_peaks
        .join(f.broadcast(counts), "job")
        .groupBy("job", *LINE)
        .agg(
            f.count(f.lit(1)).alias("ranks"),
            median(f.col("bytes"), f.max("count")).alias("median_bytes"),
            f.max("bytes").alias("most_bytes"),
            highest.alias("highest_rank"),
        )
    )
