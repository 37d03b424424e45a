"""Medians over ranks, as `memlab analyze` computes them: in whole bytes, and never a guess.

Owns the arithmetic: of two values the lower, of an even number the mean of the two in the middle, rounded down.
"""

from pyspark.sql import functions as f


def median(values, count=None):
    """The median of a column's `values` in a group, with as many zeros as there are more of the column `count`."""
    return of_array(f.collect_list(values), count)


def of_array(values, count=None):
    """The median of an array of values, none of them null."""
    count = f.lit(0) if count is None else count.cast("int")
    # Bound to a name by a lambda: spelled out, the sorted array would stand a dozen times in the query.
    given = f.struct(f.sort_array(values).alias("values"), count.alias("count"))
    return f.transform(f.array(given), lambda one: _middle(one["values"], one["count"]))[0]


def _middle(values, count):
    count = f.greatest(f.size(values), count)
    half = f.floor(count / 2).cast("int")

    def at(place):
        inside = place - (count - f.size(values))
        return f.when(inside < 0, f.lit(0).cast("bigint")).otherwise(f.get(values, inside))

    low, high = at(half - 1), at(half)
    return (
        f.when(count == 0, f.lit(0).cast("bigint"))
        .when(count <= 2, at(f.lit(0)))
        .when(count % 2 == 1, high)
        .otherwise(low + f.shiftright(high - low, 1))
    )
