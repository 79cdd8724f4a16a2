"""What numba has no word for: vector registers, views without checks, floating-point modes, flags between threads."""

from __future__ import annotations

import platform
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
VECTOR = ir.VectorType(F32, LANES)


def number(value: int) -> Any:
    return ir.Constant(I64, value)


def address_at(builder: Any, address: Any, *steps: Any) -> Any:
    """The address so many floats further on."""
    for step in steps:
        address = builder.add(address, builder.mul(step, number(4)))
    return address


def spread(builder: Any, value: Any) -> Any:
    """A vector of one number as often as it has lanes."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def prefetch(builder: Any, place: Any) -> None:
    """Asks for the line of memory at a place, which need not exist, to be read and kept in every cache."""
    words = [ir.Constant(I32, value) for value in (0, 3, 1)]
    _intrinsic(builder, "llvm.prefetch.p0i8", ir.VoidType(), [builder.bitcast(place, BYTES), *words])


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
