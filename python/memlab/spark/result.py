"""What an analysis gives: tables as data frames, and what they say over all ranks.

Owns names and what is kept at hand. Every frame is lazy: Spark reads for it what it needs when it is used.
"""

import functools

from . import across, outliers, ranks

_FILES = (
    "job string, rank long, path string, file_bytes long, events long, devices array<long>, complete boolean, "
    "warnings array<struct<kind: string, count: long, text: string>>"
)


class Result:
    """Data frames of all ranks.

    The tables of docs/tables.md by their names (`result.lines`, `result.usage`, ...), each with `job` and `rank`;
    `files` and `failed`; and over all ranks `ranks`, `medians`, `outliers`, `outlier_lines`, `failures`,
    `steps_across`, `lines_across`. Rows have no order unless a frame is sorted.
    """

    def __init__(self, spark, source, entries, failed):
        self._spark, self._source, self._entries, self._failed = spark, source, entries, failed
        self._kept = []

    def __repr__(self):
        return f"<memlab.spark.Result of {len(self._entries)} ranks, {len(self._failed)} failed files>"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def release(self):
        """Lets go of what Spark keeps for these frames; they cannot be used any more."""
        self._source.release()
        for frame in self._kept:
            frame.unpersist()

    def _keep(self, frame):
        """`frame`, which Spark computes once: it is small, and asked for again and again."""
        self._kept.append(frame.persist())
        return frame

    def table(self, name):
        """A table by its name. Raises `ValueError` where it was not made."""
        if name not in self._source.tables():
            if not self._entries:
                first = f": {self._failed[0]['error']}" if self._failed else ""
                raise ValueError(f"no recording could be analysed, {len(self._failed)} failed{first}")
            raise ValueError(f"there is no table {name}; made were {', '.join(self._source.tables())}")
        return self._source.table(name)

    def __getattr__(self, name):
        from .run import MORE_TABLES, TABLES

        if name in TABLES or name in MORE_TABLES:
            return self.table(name)
        raise AttributeError(name)

    @functools.cached_property
    def files(self):
        """Every recording that was analysed: `job`, `rank`, `path`, sizes and what is wrong with it."""
        keys = ("job", "rank", "path", "file_bytes", "events", "devices", "complete")
        warned = [[(w["kind"], w["count"], w["text"]) for w in entry["warnings"]] for entry in self._entries]
        rows = [(*(entry[key] for key in keys), w) for entry, w in zip(self._entries, warned)]
        return self._spark.createDataFrame(rows, _FILES)

    @functools.cached_property
    def failed(self):
        """Every file that gave nothing: `path`, `error` as the program says it, `hint` (may be null)."""
        rows = [(entry["path"], entry["error"], entry.get("hint")) for entry in self._failed]
        return self._spark.createDataFrame(rows, "path string, error string, hint string")

    @functools.cached_property
    def ranks(self):
        """One row per rank, by its main device: the rows of `memlab analyze --json` under `ranks` (docs/ranks.md)."""
        return self._keep(ranks.ranks(self))

    @functools.cached_property
    def medians(self):
        """One row per job: number of ranks and events, median and median deviation of the peaks."""
        return outliers.medians(self.ranks)

    @functools.cached_property
    def outliers(self):
        """Ranks that stand apart: by which counters, and how far."""
        return self._keep(outliers.outliers(self.ranks))

    @functools.cached_property
    def at_peaks(self):
        """What every line holds on a rank's main device when allocated bytes peak: `bytes`."""
        return self._keep(outliers.at_peaks(self))

    @functools.cached_property
    def outlier_lines(self):
        """The lines that make the difference of each outlier, `place` 1 first; what has no line has a null `file`."""
        return outliers.lines(self)

    @functools.cached_property
    def failures(self):
        """Ranks that ran out of memory, `place` 1 first, and how well that order is known."""
        return across.failures(self.ranks)

    @functools.cached_property
    def steps_across(self):
        """One row per step that at least two ranks of a job have: lowest, middle and highest peak."""
        return across.steps(self)

    @functools.cached_property
    def lines_across(self):
        """One row per line over all ranks: on how many it holds memory at their peaks, the middle, the most."""
        return across.lines(self)
