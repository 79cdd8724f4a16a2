"""Passes over rows of dense layers and over whole modules, eight numbers at a time.

Operands are addresses, a float being four bytes further on; nothing that is written overlaps anything else. Sums over
rows are taken in the order of the rows, however many go by at once.
"""

from __future__ import annotations

from typing import Any

from numba import types

from headrace.engines.fast.lanes import Lanes, Number, Pass, Sum
from headrace.engines.fast.native import intrinsic, number

ADDRESS, FLOAT, NOTHING = types.int64, types.float32, types.void
ALONG_TRACE, ALONG_ALL, DECAYING = range(3)  # what the update of a weight is made of
FIVE = 5  # predictions of SPR as it is published
FIRST, EACH = number(0), number(1)
AHEAD = number(512)  # how far memory is asked for what comes next


# the trace and the weights


class Way:
    """How weights move: u is z, or along_z z + along_g g + along_v v, or along_z z + along_g g - along_v w."""

    def __init__(self, making: Pass, kind: int, keep: Any, along_z: Any, along_g: Any, along_v: Any, by: Any) -> None:
        self._kind, self.square = kind, Sum(making)
        self.keep, self._along_z, self._by = making.spread(keep), making.spread(along_z), making.spread(by)
        self.along_g, self.along_v = making.spread(along_g), making.spread(along_v)

    def moved(self, lanes: Lanes, j: Any, w: Any, z: Any, trace: Any, of_g: Any, v_factor: Any, v: Any) -> Any:
        """z <- trace; gives w + by u, where `of_g` is along_g g."""
        lanes.store(trace, z, j)
        old, u = lanes.load(w, j), trace
        if self._kind != ALONG_TRACE:
            u = lanes.fma(self._along_z(lanes), trace, of_g)
            u = lanes.fma(v_factor, lanes.negative(old) if self._kind == DECAYING else v, u)
        self.square.add_product(lanes, u, u)
        return lanes.fma(self._by(lanes), u, old)


class Row:
    """One row that follows its trace: z <- keep z + x d, w <- w + by u, with x d and x' d' as gradients."""

    def __init__(
        self, making: Pass, kind: int, w: Any, z: Any, x: Any, d: Any, x_value: Any, d_value: Any, *numbers: Any
    ) -> None:
        self._way = way = Way(making, kind, *numbers)
        self.square, self._kind = way.square, kind
        self._w, self._z, self._d, self._d_value, self._own = w, z, d, d_value, making.read(x)
        self._of_g = making.product(way.along_g, self._own)
        self._of_v = making.product(way.along_v, making.read(x_value)) if kind == ALONG_ALL else way.along_v

    def moved(self, lanes: Lanes, j: Any) -> Any:
        """New weights; the new trace is written."""
        slope, way = lanes.load(self._d, j), self._way
        lanes.fetch(self._z, j, AHEAD)
        lanes.fetch(self._w, j, AHEAD)
        trace = lanes.fma(self._own(lanes), slope, lanes.times(way.keep(lanes), lanes.load(self._z, j)))
        value = lanes.load(self._d_value, j) if self._kind == ALONG_ALL else None
        of_g = lanes.times(self._of_g(lanes), slope)
        return way.moved(lanes, j, self._w, self._z, trace, of_g, self._of_v(lanes), value)


def _follow_row(kind: int) -> Any:
    """An instruction: a `Row`; gives ||u||^2."""

    def follow(typing: Any, w, z, x, d, x_value, d_value, size, keep, along_z, along_g, along_v, by):
        return FLOAT(*[ADDRESS] * 7, *[FLOAT] * 5), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        making = Pass(builder)
        row = Row(making, kind, *args[:6], *args[7:])
        making.over(args[6], lambda lanes, j: lanes.store(row.moved(lanes, j), args[0], j))
        return row.square.total()

    return intrinsic(follow)


follow_trace_row, follow_all_row, follow_decaying_row = map(_follow_row, (ALONG_TRACE, ALONG_ALL, DECAYING))


def _follow_block(kind: int) -> Any:
    """As `_follow_row` where gradients are written out."""

    def follow(typing: Any, w, z, g, v, size, keep, along_z, along_g, along_v, by):
        return FLOAT(*[ADDRESS] * 5, *[FLOAT] * 5), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        w, z, g, v, size = args[:5]
        making = Pass(builder)
        way = Way(making, kind, *args[5:])

        def body(lanes: Lanes, j: Any) -> None:
            gradient = lanes.load(g, j)
            trace = lanes.fma(way.keep(lanes), lanes.load(z, j), gradient)
            value = lanes.load(v, j) if kind == ALONG_ALL else None
            of_g = lanes.times(way.along_g(lanes), gradient)
            lanes.store(way.moved(lanes, j, w, z, trace, of_g, way.along_v(lanes), value), w, j)

        making.over(size, body)
        return way.square.total()

    return intrinsic(follow)


follow_trace_block, follow_all_block, follow_decaying_block = map(_follow_block, (ALONG_TRACE, ALONG_ALL, DECAYING))


@intrinsic
def add_to(typing: Any, y, by, x, size):
    """y <- y + by x."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        y, by, x, size = args
        making = Pass(builder)
        factor = making.spread(by)

        def body(lanes: Lanes, j: Any) -> None:
            lanes.store(lanes.fma(factor(lanes), lanes.load(x, j), lanes.load(y, j)), y, j)

        making.over(size, body)
        return context.get_dummy_value()

    return NOTHING(ADDRESS, FLOAT, ADDRESS, ADDRESS), generate


# the auxiliary's gradient: five outer products


def _five(making: Pass, x: Any, x_step: Any, d: Any, size: Any) -> tuple[list[Number], list[Any]]:
    """The five inputs of one row, and the addresses of the five rows of slopes."""
    inputs = [making.read(making.row(x, k, x_step)) for k in range(FIVE)]
    return inputs, [making.row(d, k, size) for k in range(FIVE)]


def _gradient(lanes: Lanes, j: Any, inputs: list[Number], slopes: list[Any]) -> Any:
    """sum_k x_k d_k."""
    g = lanes.times(inputs[0](lanes), lanes.load(slopes[0], j))
    for own, slope in zip(inputs[1:], slopes[1:], strict=True):
        g = lanes.fma(own(lanes), lanes.load(slope, j), g)
    return g


class Beside:
    """What the auxiliary does to one row: g = sum_k x_k d_k, w <- w + by_g g + by_c c, c <- keep c + take g.

    Without a `past` there is no c."""

    def __init__(self, making: Pass, past: bool, c: Any, x: Any, x_step: Any, d: Any, size: Any, *numbers: Any) -> None:
        self._past, self._c, (self._inputs, self._slopes) = past, c, _five(making, x, x_step, d, size)
        self._by_g, self._by_c, self._keep, self._take = map(making.spread, numbers)

    def moved(self, lanes: Lanes, j: Any, w: Any) -> Any:
        """New weights; the new c is written."""
        g = _gradient(lanes, j, self._inputs, self._slopes)
        moved = lanes.fma(self._by_g(lanes), g, w)
        if not self._past:
            return moved
        past = lanes.load(self._c, j)
        lanes.fetch(self._c, j, AHEAD)
        lanes.store(lanes.fma(self._take(lanes), g, lanes.times(self._keep(lanes), past)), self._c, j)
        return lanes.fma(self._by_c(lanes), past, moved)


def _move_by_five(past: bool) -> Any:
    """An instruction: an auxiliary's part alone, `Beside`."""

    def move(typing: Any, w, c, x, x_step, d, size, by_g, by_c, keep, take):
        return NOTHING(*[ADDRESS] * 6, *[FLOAT] * 4), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        w, size, making = args[0], args[5], Pass(builder)
        beside = Beside(making, past, *args[1:])
        making.over(size, lambda lanes, j: lanes.store(beside.moved(lanes, j, lanes.load(w, j)), w, j))
        return context.get_dummy_value()

    return intrinsic(move)


move_by_five, move_by_five_new = map(_move_by_five, (True, False))


def _follow_with_five(kind: int, past: bool) -> Any:
    """An instruction: a `Row` and what is `Beside`, as one after the other; gives ||u||^2."""

    def follow(
        typing: Any, w, z, x, d, x_value, d_value, keep, along_z, along_g, along_v, by,
        c, x_aux, x_step, d_aux, size, by_g, by_c, c_keep, c_take,
    ):  # fmt: skip
        return FLOAT(*[ADDRESS] * 6, *[FLOAT] * 5, *[ADDRESS] * 5, *[FLOAT] * 4), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        w, size, making = args[0], args[15], Pass(builder)
        row, beside = Row(making, kind, *args[:11]), Beside(making, past, *args[11:])
        making.over(size, lambda lanes, j: lanes.store(beside.moved(lanes, j, row.moved(lanes, j)), w, j))
        return row.square.total()

    return intrinsic(follow)


follow_trace_with_five, follow_all_with_five = (_follow_with_five(kind, True) for kind in (ALONG_TRACE, ALONG_ALL))
follow_trace_with_new, follow_all_with_new = (_follow_with_five(kind, False) for kind in (ALONG_TRACE, ALONG_ALL))


def _history(rows: int) -> Any:
    """An instruction: g . c and c . c of some rows, so many rows apart, to `out`; g is made of five outer products.

    g . c = sum_k x_k (c . d_k), so that g is not made.
    """

    def history(typing: Any, c, x, x_step, d, size, apart, out):
        return NOTHING(*[ADDRESS] * 7), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        c, x, x_step, d, size, apart, out = args
        making = Pass(builder)
        places = [making.row(c, r, builder.mul(apart, size)) for r in range(rows)]
        fives = [_five(making, making.row(x, r, apart), x_step, d, size) for r in range(rows)]
        along, own = [[Sum(making, 1) for _ in range(FIVE)] for _ in places], [Sum(making, 1) for _ in places]

        def body(lanes: Lanes, j: Any) -> None:
            past = [lanes.load(place, j) for place in places]
            for place in places:
                lanes.fetch(place, j, AHEAD)
            for row, square in zip(past, own, strict=True):
                square.add_product(lanes, row, row)
            for k, slope in enumerate(fives[0][1]):
                value = lanes.load(slope, j)
                for row, sums in zip(past, along, strict=True):
                    sums[k].add_product(lanes, row, value)

        making.over(size, body)
        both, squares = Sum(making, 1), Sum(making, 1)
        for (inputs, _), sums, square in zip(fives, along, own, strict=True):
            for lanes in making.forms:
                squares.add(lanes, square.parts()(lanes))
                for value, total in zip(inputs, sums, strict=True):
                    both.add_product(lanes, value(lanes), total.parts()(lanes))
        single = making.single
        single.store(both.total(), out, FIRST)
        single.store(squares.total(), out, EACH)
        return context.get_dummy_value()

    return intrinsic(history)


history_2, history_1 = map(_history, (2, 1))


@intrinsic
def history_and_trace(typing: Any, c, x_aux, x_step, d_aux, size, z, x, d, keep, out):
    """Of one row, g . c, c . c, g . t, c . t and t . t to `out`: g is made of five outer products, t = keep z + x d."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        c, x_aux, x_step, d_aux, size, z, x, d, keep, out = args
        making = Pass(builder)
        (inputs, slopes), own, kept = _five(making, x_aux, x_step, d_aux, size), making.read(x), making.spread(keep)
        sums = [Sum(making, 1) for _ in range(5)]

        def body(lanes: Lanes, j: Any) -> None:
            g, past = _gradient(lanes, j, inputs, slopes), lanes.load(c, j)
            trace = lanes.fma(own(lanes), lanes.load(d, j), lanes.times(kept(lanes), lanes.load(z, j)))
            lanes.fetch(c, j, AHEAD)
            lanes.fetch(z, j, AHEAD)
            pairs = (g, past), (past, past), (g, trace), (past, trace), (trace, trace)
            for total, pair in zip(sums, pairs, strict=True):
                total.add_product(lanes, *pair)

        making.over(size, body)
        for i, total in enumerate(sums):
            making.single.store(total.total(), out, number(i))
        return context.get_dummy_value()

    return NOTHING(*[ADDRESS] * 8, FLOAT, ADDRESS), generate
