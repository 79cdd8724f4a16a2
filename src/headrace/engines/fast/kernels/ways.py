"""Inputs on their way through a dense layer, gradients on their way back, and what is read off on the way.

As in `rows`: operands are addresses, and sums over rows are taken in the order of the rows.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir

from headrace.engines.fast.kernels.rows import ADDRESS, EACH, FIRST, FLOAT, NOTHING
from headrace.engines.fast.lanes import Lanes, Pass, Sum, four_totals, places, put
from headrace.engines.fast.native import I32, LANES, intrinsic, number


def _through(rows: int) -> Any:
    """An instruction: y <- y + x w for some rows, `step` apart."""

    def through(typing: Any, w, step, x, y, size):
        return NOTHING(*[ADDRESS] * 5), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        w, step, x, y, size = args
        making = Pass(builder)
        places = [making.row(w, r, step) for r in range(rows)]
        inputs = [making.read(making.row(x, r, EACH)) for r in range(rows)]

        following = builder.mul(number(rows), step)

        def body(lanes: Lanes, j: Any) -> None:
            result = lanes.load(y, j)
            for place, value in zip(places, inputs, strict=True):
                lanes.fetch(place, j, following)
                result = lanes.fma(value(lanes), lanes.load(place, j), result)
            lanes.store(result, y, j)

        making.over(size, body)
        return context.get_dummy_value()

    return intrinsic(through)


through_4, through_1 = map(_through, (4, 1))


@intrinsic
def back_4(typing: Any, w, step, d, dx, size):
    """dx <- w . d for four rows, `step` apart."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        w, step, d, dx, size = args
        making = Pass(builder)
        places = [making.row(w, r, step) for r in range(4)]
        sums, following = [Sum(making) for _ in places], builder.mul(number(4), step)

        def body(lanes: Lanes, j: Any) -> None:
            slope = lanes.load(d, j)
            for place, total in zip(places, sums, strict=True):
                lanes.fetch(place, j, following)
                total.add_product(lanes, lanes.load(place, j), slope)

        making.over(size, body)
        put(builder, four_totals(sums, builder), dx)
        return context.get_dummy_value()

    return NOTHING(*[ADDRESS] * 5), generate


def _back(columns: int) -> Any:
    """An instruction: dx_k <- w . d_k for two rows, so many rows apart, and some rows of slopes."""

    def back(typing: Any, w, d, dx, dx_step, size, apart):
        return NOTHING(*[ADDRESS] * 6), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        w, d, dx, dx_step, size, apart = args
        making = Pass(builder)
        rows = [making.row(w, r, builder.mul(apart, size)) for r in range(2)]
        slopes = [making.row(d, k, size) for k in range(columns)]
        sums = [[Sum(making, 1) for _ in rows] for _ in slopes]

        def body(lanes: Lanes, j: Any) -> None:
            weights = [lanes.load(row, j) for row in rows]
            for row in rows:
                lanes.fetch(row, j, size)
            for slope, totals in zip(slopes, sums, strict=True):
                value = lanes.load(slope, j)
                for weight, total in zip(weights, totals, strict=True):
                    total.add_product(lanes, weight, value)

        making.over(size, body)
        for k in range(0, columns, 2):
            totals = four_totals([*sums[k], *sums[min(k + 1, columns - 1)]], builder)
            for i in range(2 * min(2, columns - k)):
                place = making.row(making.row(dx, k + i // 2, dx_step), i % 2, apart)
                put(builder, builder.extract_element(totals, ir.Constant(I32, i)), place)
        return context.get_dummy_value()

    return intrinsic(back)


two_back_6, two_back_5, two_back_2, two_back_1 = map(_back, (6, 5, 2, 1))


@intrinsic
def both_ways_4(typing: Any, w, step, x, y, d, dx, size):
    """y <- y + x w and dx <- w . d for four rows: as `through_4` and `back_4`, to the bit."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        w, step, x, y, d, dx, size = args
        making = Pass(builder)
        places = [making.row(w, r, step) for r in range(4)]
        inputs = [making.read(making.row(x, r, EACH)) for r in range(4)]
        sums, following = [Sum(making) for _ in places], builder.mul(number(4), step)

        def body(lanes: Lanes, j: Any) -> None:
            result, slope = lanes.load(y, j), lanes.load(d, j)
            for place, value, total in zip(places, inputs, sums, strict=True):
                lanes.fetch(place, j, following)
                row = lanes.load(place, j)
                result = lanes.fma(value(lanes), row, result)
                total.add_product(lanes, row, slope)
            lanes.store(result, y, j)

        making.over(size, body)
        put(builder, four_totals(sums, builder), dx)
        return context.get_dummy_value()

    return NOTHING(*[ADDRESS] * 7), generate


@intrinsic
def inner(typing: Any, a, b, size):
    """a . b."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        making = Pass(builder)
        total = Sum(making)
        making.over(args[2], lambda lanes, j: total.add_product(lanes, lanes.load(args[0], j), lanes.load(args[1], j)))
        return total.total()

    return FLOAT(*[ADDRESS] * 3), generate


def _sizes(rows: int) -> Any:
    """An instruction: ||keep z + x d||_1 of some rows."""

    def sizes(typing: Any, z, step, x, d, size, keep):
        return FLOAT(*[ADDRESS] * 5, FLOAT), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        z, step, x, d, size, keep = args
        making = Pass(builder)
        kept, places = making.spread(keep), [making.row(z, r, step) for r in range(rows)]
        inputs = [making.read(making.row(x, r, EACH)) for r in range(rows)]
        sums, following = [Sum(making) for _ in places], builder.mul(number(rows), step)

        def body(lanes: Lanes, j: Any) -> None:
            slope = lanes.load(d, j)
            for place, value, total in zip(places, inputs, sums, strict=True):
                lanes.fetch(place, j, following)
                trace = lanes.fma(value(lanes), slope, lanes.times(kept(lanes), lanes.load(place, j)))
                total.add(lanes, lanes.size(trace))

        making.over(size, body)
        totals = [total.total() for total in sums]
        return reduce(builder.fadd, totals)

    return intrinsic(sizes)


sizes_4, sizes_1 = map(_sizes, (4, 1))


# matrices turned over


@intrinsic
def turn_block(typing: Any, source, source_step, out, out_step):
    """The transpose of eight rows of eight numbers: pairs change places, then pairs of pairs, then halves."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        source, source_step, out, out_step = args
        making = Pass(builder)
        lanes = making.kinds[0]
        rows = [lanes.load(making.row(source, r, source_step), FIRST) for r in range(LANES)]
        for distance, pattern in ((1, ALTERNATE), (2, ALTERNATE_PAIRS), (4, ALTERNATE_HALVES)):
            rows = _exchanged(builder, rows, distance, pattern)
        for r, row in enumerate(rows):
            lanes.store(row, making.row(out, r, out_step), FIRST)
        return context.get_dummy_value()

    return NOTHING(*[ADDRESS] * 4), generate


# What two rows exchange, `distance` being how many numbers go together: the places that each new row is made of.
ALTERNATE = [0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15]
ALTERNATE_PAIRS = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
ALTERNATE_HALVES = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]


def _exchanged(builder: Any, rows: list[Any], distance: int, pattern: tuple[list[int], list[int]]) -> list[Any]:
    """Every row and the one `distance` further on swap what lies off the diagonal."""
    found = list(rows)
    for r in (r for r in range(LANES) if not r & distance):
        for to, chosen in zip((r, r + distance), pattern, strict=True):
            found[to] = builder.shuffle_vector(rows[r], rows[r + distance], places(chosen))
    return found
