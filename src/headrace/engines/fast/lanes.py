"""Eight numbers at a time: how passes over rows are written where numba's own loops would check and spill.

A pass is an instruction made of LLVM's vector operations. Its operands are addresses and sizes in numbers; nothing that
it writes overlaps anything else that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from headrace.engines.fast.native import F32, I32, I64, LANES, VECTOR, address_at, number, prefetch, spread

LINE = 2  # vectors in a line of the cache
ONE_LANE = {VECTOR: f"v{LANES}f32", F32: "f32"}
PLACES = ir.VectorType(I32, LANES)


class Lanes:
    """What can be done with eight numbers at once, or with one."""

    def __init__(self, builder: Any, kind: Any, place: int) -> None:
        self.builder, self.kind, self.place = builder, kind, place

    def load(self, address: Any, j: Any) -> Any:
        return self.builder.load(self._place(address, j), align=4)

    def store(self, value: Any, address: Any, j: Any) -> None:
        self.builder.store(value, self._place(address, j), align=4)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c."""
        return self._call("fma", a, b, c)

    def size(self, a: Any) -> Any:
        return self._call("fabs", a)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b)

    def fetch(self, address: Any, j: Any, ahead: Any) -> None:
        """Asks for what lies so many numbers further on, which need not exist; not for both halves of a line."""
        if self.place != 0:
            return
        first = self.builder.inttoptr(address_at(self.builder, address, ahead), F32.as_pointer())
        prefetch(self.builder, self.builder.gep(first, [j]))

    def negative(self, a: Any) -> Any:
        return self.builder.fneg(a)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b)

    def _place(self, address: Any, j: Any) -> Any:
        """An address is made a place before j is added: the compiler then keeps it, and does not walk from one to the
        next. It would also make vectors of the loop over single numbers, which is not worth its code."""
        if self.kind is F32:
            return self.builder.inttoptr(address_at(self.builder, address, j), F32.as_pointer())
        first = self.builder.inttoptr(address, F32.as_pointer())
        return self.builder.bitcast(self.builder.gep(first, [j]), VECTOR.as_pointer())

    def _call(self, name: str, *args: Any) -> Any:
        kind = ir.FunctionType(self.kind, [self.kind] * len(args))
        name = f"llvm.{name}.{ONE_LANE[self.kind]}"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), args)


class Number(NamedTuple):
    """A number as often as there are lanes."""

    forms: dict[Any, Any]

    def __call__(self, lanes: Lanes) -> Any:
        return self.forms[lanes.kind]


class Pass:
    """The making of one instruction."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.kinds = *(Lanes(builder, VECTOR, place) for place in range(LINE)), Lanes(builder, F32, LINE)
        self.single, self.forms = self.kinds[-1], (self.kinds[0], self.kinds[-1])

    def over(self, size: Any, body: Callable[[Lanes, Any], None]) -> None:
        """The body for as many lines as there are, vector by vector, then for single numbers."""
        builder, line = self.builder, LANES * LINE
        whole = builder.and_(size, number(-line))
        with cgutils.for_range_slice(builder, number(0), whole, number(line), I64) as (j, _):
            for i, lanes in enumerate(self.kinds[:-1]):
                body(lanes, builder.add(j, number(i * LANES)))
        with cgutils.for_range_slice(builder, whole, size, number(1), I64) as (j, _):
            body(self.single, j)

    def row(self, address: Any, r: int, step: Any) -> Any:
        """The address of row r."""
        return address_at(self.builder, address, self.builder.mul(number(r), step))

    def read(self, address: Any) -> Number:
        """One number from memory."""
        return self.spread(self.builder.load(self.builder.inttoptr(address, F32.as_pointer()), align=4))

    def spread(self, value: Any) -> Number:
        return Number({VECTOR: spread(self.builder, value), F32: value})

    def product(self, a: Number, b: Number) -> Number:
        return Number({lanes.kind: lanes.times(a(lanes), b(lanes)) for lanes in self.forms})


class Sum:
    """A sum in every lane; `total` adds them up, always in the same order."""

    def __init__(self, making: Pass, rooms: int = LINE) -> None:
        """The vectors of a line have rooms of their own, which hides how long each addition takes; or one for all of
        them, where a pass has so many sums that this is hidden anyway and registers are short."""
        self._builder = builder = making.builder
        self._rooms = [cgutils.alloca_once(builder, VECTOR) for _ in range(rooms)]
        self._single = cgutils.alloca_once(builder, F32)
        for room in self._rooms:
            builder.store(ir.Constant(VECTOR, [0.0] * LANES), room)
        builder.store(ir.Constant(F32, 0.0), self._single)

    def add_product(self, lanes: Lanes, a: Any, b: Any) -> None:
        room = self._room(lanes)
        self._builder.store(lanes.fma(a, b, self._builder.load(room)), room)

    def add(self, lanes: Lanes, a: Any) -> None:
        room = self._room(lanes)
        self._builder.store(lanes.plus(a, self._builder.load(room)), room)

    def _room(self, lanes: Lanes) -> Any:
        return self._single if lanes.kind is F32 else self._rooms[lanes.place % len(self._rooms)]

    def vector(self) -> Any:
        return reduce(self._builder.fadd, [self._builder.load(room) for room in self._rooms])

    def rest(self) -> Any:
        """The sum of the numbers that made no whole line."""
        return self._builder.load(self._single)

    def parts(self) -> Number:
        return Number({VECTOR: self.vector(), F32: self.rest()})

    def total(self) -> Any:
        builder, vector = self._builder, self.vector()
        for width in (4, 2, 1):
            turned = ir.Constant(PLACES, [(i + width) % LANES for i in range(LANES)])
            vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, turned))
        return builder.fadd(builder.extract_element(vector, ir.Constant(I32, 0)), self.rest())


def four_totals(sums: list[Sum], builder: Any) -> Any:
    """The totals of four sums as one vector: far fewer steps than each total on its own."""
    first, second, third, fourth = (total.vector() for total in sums)
    both = _neighbours(builder, _neighbours(builder, first, second), _neighbours(builder, third, fourth))
    low, high = (builder.shuffle_vector(both, both, places(range(i, i + 4))) for i in (0, 4))
    rests = ir.Constant(ir.VectorType(F32, LANES // 2), ir.Undefined)
    for r, total in enumerate(sums):
        rests = builder.insert_element(rests, total.rest(), ir.Constant(I32, r))
    return builder.fadd(builder.fadd(low, high), rests)


def put(builder: Any, vector: Any, address: Any) -> None:
    """Writes numbers side by side."""
    builder.store(vector, builder.inttoptr(address, vector.type.as_pointer()), align=4)


def _neighbours(builder: Any, a: Any, b: Any) -> Any:
    """Sums of neighbours, by halves: of a's first half, b's first half, a's second half, b's second half."""
    even, odd = ([start + i for start in (0, 8, 4, 12) for i in (shift, shift + 2)] for shift in (0, 1))
    return builder.fadd(builder.shuffle_vector(a, b, places(even)), builder.shuffle_vector(a, b, places(odd)))


def places(chosen: Iterable[int]) -> Any:
    """Places as a shuffle of vectors takes them."""
    some = list(chosen)
    return ir.Constant(ir.VectorType(I32, len(some)), some)
