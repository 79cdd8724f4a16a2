"""What numba has no word for: vector registers, views without checks, floating-point modes, flags between threads."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

intrinsic: Any = extending.intrinsic  # what it makes of a function has another signature

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
BYTES = ir.IntType(8).as_pointer()
FLUSH_X86 = 0x8040  # denormal results and operands are zero
FLUSH_ARM = 1 << 24
MACHINE = {"x86_64": "x86", "AMD64": "x86", "aarch64": "arm", "arm64": "arm"}.get(platform.machine(), "other")


LANES = 8  # numbers in one vector register
TILE_COLUMNS = 2 * LANES
TALLEST = 6  # rows of a tile: its sums take twelve of sixteen registers
VECTOR = ir.VectorType(F32, LANES)


def _tile(rows: int, start: Callable[[Any, Any], Any]) -> Any:
    """An instruction: C <- start + A B for so many rows and sixteen columns of C, which stay in registers meanwhile.

    Matrices are given by their addresses, steps are in floats. A's element (r, k) lies at a + r * row_step + k *
    inner_step, so that A may be turned over.
    """

    def tile(typing: Any, a, row_step, inner_step, b, b_step, c, c_step, inner):
        return types.void(*[types.int64] * 8), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, row_step, inner_step, b, b_step, c, c_step, inner = args
        places = _places(builder, rows, c, c_step)
        sums = _sums(builder, rows, places, start, a, row_step, inner_step, b, b_step, inner)
        for room, place in zip(sums, places, strict=True):
            builder.store(builder.load(room), builder.inttoptr(place, VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return intrinsic(tile)


def _renewing_tile(rows: int) -> Any:
    """An instruction: C <- C - lost C + A B, as `_tile`; the product is summed up before it meets C."""

    def tile(typing: Any, a, row_step, inner_step, b, b_step, c, c_step, inner, lost):
        return types.void(*[types.int64] * 8, types.float32), generate

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, row_step, inner_step, b, b_step, c, c_step, inner, lost = args
        places = _places(builder, rows, c, c_step)
        sums = _sums(builder, rows, places, _zeros, a, row_step, inner_step, b, b_step, inner)
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
        loss = spread(builder, builder.fneg(lost))
        for room, place in zip(sums, places, strict=True):
            old = _load(builder, place)
            new = builder.fadd(builder.call(fma, [loss, old, old]), builder.load(room))
            builder.store(new, builder.inttoptr(place, VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return intrinsic(tile)


def _places(builder: Any, rows: int, c: Any, c_step: Any) -> list[Any]:
    """Where the vectors of a tile lie."""
    starts = [address_at(builder, c, builder.mul(number(r), c_step)) for r in range(rows)]
    return [place for first in starts for place in (first, address_at(builder, first, number(LANES)))]


def _sums(
    builder: Any, rows: int, places: list[Any], start: Callable[[Any, Any], Any], a: Any, row_step: Any,
    inner_step: Any, b: Any, b_step: Any, inner: Any,
) -> list[Any]:  # fmt: skip
    """start + A B of one tile, in registers."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
    sums = [cgutils.alloca_once(builder, VECTOR) for _ in places]
    for room, place in zip(sums, places, strict=True):
        builder.store(start(builder, place), room)
    with cgutils.for_range(builder, inner) as loop:
        row = address_at(builder, b, builder.mul(loop.index, b_step))
        from_b = [_load(builder, address_at(builder, row, number(LANES * i))) for i in range(2)]
        for r in range(rows):
            place = address_at(builder, a, builder.mul(number(r), row_step), builder.mul(loop.index, inner_step))
            from_a = spread(builder, builder.load(builder.inttoptr(place, F32.as_pointer()), align=4))
            for room, vector in zip(sums[2 * r : 2 * r + 2], from_b, strict=True):
                builder.store(builder.call(fma, [from_a, vector, builder.load(room)]), room)
    return sums


def number(value: int) -> Any:
    return ir.Constant(I64, value)


def address_at(builder: Any, address: Any, *steps: Any) -> Any:
    """The address so many floats further on."""
    for step in steps:
        address = builder.add(address, builder.mul(step, number(4)))
    return address


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, VECTOR.as_pointer()), align=4)


def spread(builder: Any, value: Any) -> Any:
    """A vector of one number as often as it has lanes."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def _zeros(builder: Any, address: Any) -> Any:
    return ir.Constant(VECTOR, [0.0] * LANES)


# By their number of rows: tiles that set C, and tiles that add to it.
set_1, set_2, set_3, set_4, set_5, set_6 = (_tile(rows, _zeros) for rows in range(1, TALLEST + 1))
add_1, add_2, add_3, add_4, add_5, add_6 = (_tile(rows, _load) for rows in range(1, TALLEST + 1))
renew_1, renew_6 = map(_renewing_tile, (1, TALLEST))


@intrinsic
def part(typing: Any, array, start, size):
    """`array[start : start + size]` of a one-dimensional array, unchecked: far less to compile than a slice."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.return_type
        whole, some = (make_array(kind)(context, builder, *value) for value in ((args[0],), ()))
        width = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        populate_array(
            some, data=builder.gep(whole.data, [args[1]]), shape=[args[2]], strides=[width], itemsize=width,
            meminfo=None,
        )  # fmt: skip
        return some._getvalue()

    kind = types.Array(array.dtype, 1, "C")
    return kind(kind, types.intp, types.intp), generate


@intrinsic
def move(typing: Any, array, out, start, size):
    """array[out : out + size] = array[start : start + size], where the two do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        data = make_array(kind)(context, builder, args[0]).data
        width = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        cgutils.raw_memcpy(builder, builder.gep(data, [args[1]]), builder.gep(data, [args[2]]), args[3], width)
        return context.get_dummy_value()

    return types.void(types.Array(array.dtype, 1, "C"), types.intp, types.intp, types.intp), generate


@intrinsic
def flush_denormals(typing: Any):
    """From here on numbers too small to be normal are zero; returns the mode to be given back by `set_mode`."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        before = _mode(builder)
        _set_mode(builder, builder.or_(before, ir.Constant(I64, {"x86": FLUSH_X86, "arm": FLUSH_ARM}.get(MACHINE, 0))))
        return before

    return types.int64(), generate


@intrinsic
def set_mode(typing: Any, mode):
    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        _set_mode(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _mode(builder: Any) -> Any:
    if MACHINE == "x86":
        place = cgutils.alloca_once(builder, I32)
        _intrinsic(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), [builder.bitcast(place, BYTES)])
        return builder.zext(builder.load(place), I64)
    if MACHINE == "arm":
        return _intrinsic(builder, "llvm.aarch64.get.fpcr", I64, [])
    return ir.Constant(I64, 0)


def _set_mode(builder: Any, mode: Any) -> None:
    if MACHINE == "x86":
        place = cgutils.alloca_once_value(builder, builder.trunc(mode, I32))
        _intrinsic(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [builder.bitcast(place, BYTES)])
    elif MACHINE == "arm":
        _intrinsic(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), [mode])


def _intrinsic(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


@intrinsic
def peek(typing: Any, address):
    """The whole number at an address, as another thread may just have written it, and all it wrote before."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(args[0], I64.as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def post(typing: Any, address, value):
    """Writes a whole number for another thread to `peek`, after everything written before it."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        builder.store_atomic(args[1], builder.inttoptr(args[0], I64.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate
