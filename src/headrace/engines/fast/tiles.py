"""Products by tiles: some rows and sixteen columns of a result stay in registers while all of their sum is taken.

A tile is an instruction made of LLVM's vector operations. Matrices are given by their addresses, steps are in floats,
tables are addresses of whole numbers. Each element of a result is summed up in the order of the factors, however many
rows a tile has. The loops are written so that a step of the sum takes hardly more than its multiplications and loads:
where another thread of the same core takes half of what a core can begin, everything else shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from headrace.engines.fast.native import F32, I64, LANES, VECTOR, intrinsic, number, prefetch, spread

TILE_COLUMNS = 2 * LANES
TALLEST = 6  # rows of a tile: its sums take twelve of sixteen registers
FLOATS, VECTORS, WHOLES = F32.as_pointer(), VECTOR.as_pointer(), I64.as_pointer()
AT_ONCE = 4  # terms of a sum from one look at the loop's end to the next


class Tile:
    """The sums of one tile in the making."""

    def __init__(self, builder: Any, rows: int) -> None:
        self.builder = builder
        self._sums = [cgutils.alloca_once(builder, VECTOR) for _ in range(2 * rows)]
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        self._fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")

    def clear(self) -> None:
        for room in self._sums:
            self.builder.store(ir.Constant(VECTOR, [0.0] * LANES), room)

    def load(self, rows: list[Any]) -> None:
        for room, place in zip(self._sums, self._halves(rows), strict=True):
            self.builder.store(self._vector(place), room)

    def add(self, left: list[Any], right: Any) -> None:
        """One term: the number at `left` for each row, times the sixteen at `right`."""
        builder = self.builder
        factors = [self._vector(place) for place in self._halves([right])]
        for r, place in enumerate(left):
            own = spread(builder, builder.load(place, align=4))
            for room, factor in zip(self._sums[2 * r : 2 * r + 2], factors, strict=True):
                builder.store(builder.call(self._fma, [own, factor, builder.load(room)]), room)

    def store(self, rows: list[Any]) -> None:
        for room, place in zip(self._sums, self._halves(rows), strict=True):
            self._put(self.builder.load(room), place)

    def renew(self, rows: list[Any], lost: Any) -> None:
        """What lies there becomes less by a part of it, and more by the sums."""
        builder, loss = self.builder, spread(self.builder, self.builder.fneg(lost))
        for room, place in zip(self._sums, self._halves(rows), strict=True):
            old = self._vector(place)
            self._put(builder.fadd(builder.call(self._fma, [loss, old, old]), builder.load(room)), place)

    def _halves(self, rows: list[Any]) -> list[Any]:
        return [further(self.builder, row, number(i)) for row in rows for i in (0, LANES)]

    def _vector(self, place: Any) -> Any:
        return self.builder.load(self.builder.bitcast(place, VECTORS), align=4)

    def _put(self, value: Any, place: Any) -> None:
        self.builder.store(value, self.builder.bitcast(place, VECTORS), align=4)


def further(builder: Any, place: Any, *steps: Any) -> Any:
    """The place so many elements further on."""
    for step in steps:
        place = builder.gep(place, [step])
    return place


def _floats(builder: Any, *addresses: Any) -> list[Any]:
    return [builder.inttoptr(address, FLOATS) for address in addresses]


def _apart(builder: Any, first: Any, step: Any, rows: int) -> list[Any]:
    """Rows that lie `step` apart."""
    return [further(builder, first, builder.mul(number(r), step)) for r in range(rows)]


def _listed(builder: Any, first: Any, table: Any, rows: int) -> list[Any]:
    """Rows that lie where a table says."""
    offsets = [builder.load(further(builder, table, number(r))) for r in range(rows)]
    return [further(builder, first, offset) for offset in offsets]


def _over(builder: Any, first: Any, size: Any, at_once: int, body: Callable[[Any], None]) -> None:
    """The body for `size` whole numbers from the first on, several times before the loop looks whether it is done."""
    whole, end = (builder.add(first, some) for some in (builder.and_(size, number(-at_once)), size))
    with cgutils.for_range_slice(builder, first, whole, number(at_once), I64) as (k, _):
        for i in range(at_once):
            body(builder.add(k, number(i), flags=("nsw",)))
    with cgutils.for_range_slice(builder, whole, end, number(1), I64) as (k, _):
        body(k)


class Walk:
    """A place that moves on by a step at a time."""

    def __init__(self, builder: Any, first: Any, step: Any) -> None:
        self._builder, self._step = builder, step
        self._room = cgutils.alloca_once_value(builder, first)

    def next(self) -> Any:
        """Where it is; then it moves on."""
        place = self._builder.load(self._room)
        self._builder.store(further(self._builder, place, self._step), self._room)
        return place


def _convolving(rows: int) -> Any:
    """C <- A B, where rows of A are windows of an image: each begins where `rows_at` says, and consists of `count`
    stretches of `length` numbers. A pair in `windows` says where in the window and where in B a stretch begins."""

    def tile(typing: Any, a, rows_at, windows, count, length, b, b_step, c, c_step):
        return types.void(*[types.int64] * 9), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, rows_at, windows, count, length, b, b_step, c, c_step = args
        (image, weights, result), made = _floats(builder, a, b, c), Tile(builder, rows)
        table, pairs = (builder.inttoptr(address, WHOLES) for address in (rows_at, windows))
        lefts = _listed(builder, image, table, rows)
        made.clear()
        with cgutils.for_range(builder, count) as loop:
            pair = further(builder, pairs, builder.mul(loop.index, number(2)))
            start, below = (builder.load(further(builder, pair, number(i))) for i in (0, 1))
            walk = Walk(builder, further(builder, weights, below), b_step)

            def term(k: Any) -> None:
                made.add([further(builder, left, k) for left in lefts], walk.next())

            _over(builder, start, length, AT_ONCE, term)
        made.store(_apart(builder, result, c_step, rows))
        return context.get_dummy_value()

    return intrinsic(tile)


def _add_product(made: Tile, lefts: list[Any], inner: Any, walk: Walk, places: list[Any]) -> None:
    """To what lies there, rows whose numbers follow each other times what is walked along."""
    builder = made.builder

    def term(k: Any) -> None:
        made.add([further(builder, left, k) for left in lefts], walk.next())

    made.load(places)
    _over(builder, number(0), inner, AT_ONCE, term)
    made.store(places)


def _adding(rows: int) -> Any:
    """C <- C + A B."""

    def tile(typing: Any, a, a_step, inner, b, b_step, c, c_step):
        return types.void(*[types.int64] * 7), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, a_step, inner, b, b_step, c, c_step = args
        (left, right, result), made = _floats(builder, a, b, c), Tile(builder, rows)
        lefts, places = _apart(builder, left, a_step, rows), _apart(builder, result, c_step, rows)
        walk = Walk(builder, right, b_step)
        _add_product(made, lefts, inner, walk, places)
        return context.get_dummy_value()

    return intrinsic(tile)


def _folding(rows: int) -> Any:
    """C <- C + A B, where rows of C begin where `rows_at` says, and B's rows follow each other."""

    def tile(typing: Any, a, a_step, inner, b, c, rows_at):
        return types.void(*[types.int64] * 6), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, a_step, inner, b, c, rows_at = args
        (left, right, result), made = _floats(builder, a, b, c), Tile(builder, rows)
        lefts = _apart(builder, left, a_step, rows)
        places = _listed(builder, result, builder.inttoptr(rows_at, WHOLES), rows)
        walk = Walk(builder, right, number(TILE_COLUMNS))
        _add_product(made, lefts, inner, walk, places)
        return context.get_dummy_value()

    return intrinsic(tile)


def _turning(rows: int) -> Any:
    """C <- A^T B, added to what lies there unless it is `fresh`; rows of A begin where `rows_at` says."""

    def tile(typing: Any, a, rows_at, inner, b, b_step, c, c_step, fresh):
        return types.void(*[types.int64] * 8), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, rows_at, inner, b, b_step, c, c_step, fresh = args
        (left, right, result), made = _floats(builder, a, b, c), Tile(builder, rows)
        table, places = builder.inttoptr(rows_at, WHOLES), _apart(builder, result, c_step, rows)
        walk = Walk(builder, right, b_step)
        made.clear()
        with builder.if_then(builder.icmp_signed("==", fresh, number(0))):
            made.load(places)

        def term(k: Any) -> None:
            (first,) = _listed(builder, left, further(builder, table, k), 1)
            made.add([further(builder, first, number(r)) for r in range(rows)], walk.next())

        _over(builder, number(0), inner, AT_ONCE // 2, term)
        made.store(places)
        return context.get_dummy_value()

    return intrinsic(tile)


def _renewing(rows: int) -> Any:
    """C <- C - lost C + A^T B; rows of A lie `a_step` apart, B's follow each other. The product is summed up before it
    meets C."""

    def tile(typing: Any, a, a_step, inner, b, c, c_step, lost):
        return types.void(*[types.int64] * 6, types.float32), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, a_step, inner, b, c, c_step, lost = args
        (left, right, result), made = _floats(builder, a, b, c), Tile(builder, rows)
        own, walk = Walk(builder, left, a_step), Walk(builder, right, number(TILE_COLUMNS))
        made.clear()

        def term(k: Any) -> None:
            first = own.next()
            made.add([further(builder, first, number(r)) for r in range(rows)], walk.next())

        _over(builder, number(0), inner, AT_ONCE // 2, term)
        made.renew(_apart(builder, result, c_step, rows), lost)
        return context.get_dummy_value()

    return intrinsic(tile)


# By their number of rows. Others are made of these.
convolving_1, convolving_5, convolving_6 = map(_convolving, (1, 5, TALLEST))
adding_1, adding_5, adding_6 = map(_adding, (1, 5, TALLEST))
folding_1, folding_5, folding_6 = map(_folding, (1, 5, TALLEST))
turning_1, turning_5, turning_6 = map(_turning, (1, 5, TALLEST))
renewing_1, renewing_6 = map(_renewing, (1, TALLEST))


@intrinsic
def fetch_lines(typing: Any, first, step, count):
    """Asks for so many lines of memory, `step` floats apart, which need not exist."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        first, step, count = args
        walk = Walk(builder, _floats(builder, first)[0], step)
        with cgutils.for_range(builder, count):
            prefetch(builder, walk.next())
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate
