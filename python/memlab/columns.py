"""Columns of the trace format: lists of integers to fixed-width bytes.

Owns the two encodings of docs/trace-format.md (offset, delta) and nothing else. Values may be any integers of
64 bits, signed or not; the reader adds modulo 2**64.
"""

import sys
from array import array
from operator import sub

_MODULUS = 1 << 64
# The narrowest width that holds a span. Items of an array have these sizes wherever CPython runs.
_WIDTHS = ((1, "B", 1 << 8), (2, "H", 1 << 16), (4, "I", 1 << 32), (8, "Q", _MODULUS))


def offset(values, at_least_one_byte=False):
    """`[0, width, base, data]`. Width 0 says that all rows are equal, unless `at_least_one_byte`."""
    if not values:
        return [0, 1, 0, b""]
    low = min(values)
    width, base, data = _packed(values, low, max(values), at_least_one_byte)
    return [0, width, base, data]


def delta(values):
    """`[1, width, base, data, start]`: for values that grow, such as times."""
    if not values:
        return [0, 1, 0, b""]
    steps = list(map(sub, values[1:], values))
    low = min(steps, default=0)
    high = max(steps, default=0)
    start = values[0] - low
    if high - low >= _MODULUS or not -(1 << 63) <= start < 1 << 63:
        return offset(values)
    width, base, data = _packed([low, *steps], low, high, False)
    return [1, width, base, data, start]


def is_constant(column):
    """The value that every row of an offset column has, or None."""
    return column[2] if column[0] == 0 and column[1] == 0 else None


def _packed(values, low, high, at_least_one_byte):
    span = high - low
    if span == 0 and not at_least_one_byte:
        return 0, low, b""
    # A base of 0 costs no subtraction, and columns of ids are as narrow with it.
    if 0 <= low and _width(high) == _width(span):
        low = 0
    width, code = _width(high - low)
    data = array(code, values if low == 0 else [value - low for value in values])
    if sys.byteorder == "big":
        data.byteswap()
    return width, low, data.tobytes()


def _width(span):
    for width, code, limit in _WIDTHS:
        if span < limit:
            return width, code
    raise OverflowError(f"a column cannot span {span}")
