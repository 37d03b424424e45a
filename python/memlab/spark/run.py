"""`analyze` and `read`: from files, or from a dataset, to a `Result`.

Owns the order of the work: files are listed, mapped once, and judged in the order of their names, whatever order
tasks ended in. What is asked of the tables is `result`'s.
"""

import json
import os

from . import dataset, listing
from .result import Result
from .sources import Dataset, Pieces

# Those of a dataset; `modules`, `pins`, `pools` and `warnings` are there when they are asked for.
TABLES = (
    "trace",
    "allocations",
    "stacks",
    "lines",
    "steps",
    "step_lines",
    "categories",
    "usage",
    "segments",
    "fragmentation",
    "ooms",
    "findings",
)
MORE_TABLES = ("modules", "pins", "pools", "warnings")


def analyze(
    spark,
    paths,
    *,
    tables=TABLES,
    job=None,
    output=None,
    force=False,
    read="auto",
    binary=None,
    scratch=None,
    partitions=None,
):
    """Analyses recordings on the executors of `spark`; returns a :class:`memlab.spark.Result`.

    `paths` is a file, a folder or a list of both, by path or URI; in a folder, those files are meant that `memlab
    export --partition` takes. Every file is analysed once, in this call; a file that fails stands in
    `Result.failed`, the others go on.

    - `tables`: which tables to make; fewer are faster.
    - `job`: name of the job; else the name of the folder that holds the ranks.
    - `output`: keep the tables as a dataset in this folder, which driver and executors share; `force` replaces
      ranks that it has.
    - `read`: `"shared"`: executors open the files by their path; `"spark"`: Spark reads them and hands over their
      bytes; `"auto"`: the first for local paths, the second for `hdfs:`, `s3a:` and others.
    - `binary`: the memlab program on the executors; else the shipped or the installed one.
    - `scratch`: folder for temporary files on the executors; else Spark's own.
    - `partitions`: number of tasks.

    Raises `ValueError` for arguments that cannot be meant and where a folder holds no recording.
    """
    from .tasks import Mapper

    unknown = set(tables) - set(TABLES + MORE_TABLES)
    if unknown or not tables:
        raise ValueError(f"tables={sorted(unknown)}: they are {', '.join(TABLES + MORE_TABLES)}")
    paths, in_place = listing.choose(paths, read)
    known, staging = None, None
    if output is not None:
        output = listing.plain(os.fspath(output))
        known, staging = dataset.manifest(output), dataset.staging(output)
    try:
        mapper = Mapper(dict.fromkeys(tables), binary, job, scratch, staging)
        names, rows = _mapped(spark, mapper, paths, in_place, partitions)
        infos = {row.number: json.loads(row.info) for row in _told(rows, keep=staging is None)}
        entries, failed = _judged(names, infos)
        if output is not None:
            entries, refused = dataset.place(entries, output, force, TABLES + MORE_TABLES)
            failed += [{**entry, **error} for entry, error in refused]
        failed.sort(key=lambda entry: entry["number"])
        if output is not None and entries:
            dataset.write(output, known, entries, failed)
    finally:
        if staging is not None:
            dataset.drop(staging)
    source = Pieces(rows, entries) if output is None else Dataset(spark, output, entries)
    return Result(spark, source, entries, failed)


def read(spark, path):
    """The `Result` of a dataset that `analyze(output=...)` or `memlab export --partition` has written.

    Raises `ValueError` where there is none.
    """
    path = listing.plain(os.fspath(path))
    told = dataset.manifest(path)
    if not told["ranks"]:
        raise ValueError(f"there is no dataset of memlab's in {path}")
    return Result(spark, Dataset(spark, path, told["ranks"]), told["ranks"], told["failed"])


def _mapped(spark, mapper, paths, in_place, partitions):
    """(the files' names by number, the rows of tasks.ROWS)."""
    from .mapping import ddl
    from .tasks import ROWS

    if in_place:
        files = listing.shared(paths)
        frame = spark.createDataFrame([(at, os.fsencode(file)) for at, file in enumerate(files)], "number long, file binary")
        frame = frame.repartition(partitions or _tasks(spark, len(files)))
        names = [os.fsencode(file).decode("utf-8", "replace") for file in files]
        return names, frame.mapInArrow(mapper.in_place, ddl(ROWS))
    files = listing.through_spark(spark, paths)
    names = [name for name, _ in files]
    numbers = {name: at for at, name in enumerate(names)}
    small = [listing.literal(name) for name, length in files if length <= listing.MOST_ROW_BYTES]
    content = _contents(spark, small, numbers)
    if partitions:
        content = content.repartition(partitions)
    return names, content.mapInArrow(mapper.from_bytes, ddl(ROWS))


def _contents(spark, paths, numbers):
    """`number`, `path` and `content` of every path; of those that Spark cannot read there is no row."""
    from pyspark.sql import functions as f

    names = spark.createDataFrame([(name, at) for name, at in numbers.items()], "path string, number long")
    if not paths:
        return names.select("number", "path", f.lit(None).cast("binary").alias("content")).limit(0)
    reader = spark.read.format("binaryFile")
    reader = reader.option("ignoreCorruptFiles", "true").option("ignoreMissingFiles", "true")
    return reader.load(paths).select("path", "content").join(f.broadcast(names), "path").select("number", "path", "content")


def _tasks(spark, files):
    """A few files for each task: long enough to be worth a task, short enough to spread."""
    try:
        cores = spark.sparkContext.defaultParallelism
    except Exception:  # Spark Connect does not tell.
        cores = 8
    return max(1, min(files, max(cores * 4, -(-files // 8))))


def _told(rows, keep):
    """The row of each file, which makes Spark do the work; with `keep` the others stay at hand."""
    from pyspark import StorageLevel

    if keep:
        rows.persist(StorageLevel.MEMORY_AND_DISK)
    return rows.where("table IS NULL").select("number", "info").collect()


def _judged(names, infos):
    """(entries of ranks, failures), in the order of the files: of two files of one rank the second is refused."""
    entries, failed, taken = [], [], {}
    for number, name in enumerate(names):
        info = infos.get(number) or {
            "error": "Spark gave no content of this file: it is damaged, gone, or larger than 1 GiB",
            "hint": "larger files have to be where executors open them by their path: read='shared'",
        }
        info = {**info, "number": number, "path": name}
        if "error" in info:
            failed.append(info)
            continue
        who = (info["job"], info["rank"])
        if who in taken:
            error = f"{name} is rank {who[1]} of job {who[0]}, and so is {taken[who]}"
            failed.append({**info, "error": error, "hint": "ranks of other jobs go into calls with another job="})
            continue
        taken[who] = name
        entries.append(info)
    return entries, failed
