"""One pass over matrices of equal shape: everything that is to be made of them, tile by tile."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.dense import ROWS_BESIDE
from headrace.engines.reference.fused.programs import call, count, load, total_of
from headrace.engines.reference.later import Later, Made, OuterSum, Value, Wanted, Whole, matrix


class Stride(NamedTuple):
    """How a program goes through its rows: tiles of so many rows, one for each warp, of which some are on their way at
    once (decision 0030)."""

    rows: int
    tiles: int

    @property
    def whole(self) -> int:
        return self.rows * self.tiles


USUAL, MUCH = Stride(8, 1), Stride(4, 2)  # of a pass that makes up to two matrices, and of one that makes more
AMONG = Stride(8, 2)  # of one that others are to find room beside
ROWS = 64  # rows that a program goes through, unless others are to find room beside it
ROWS_AMONG = 1024  # of one that writes among others: half of the card's registers are left to them (decision 0031)


@dataclass(frozen=True)
class Plan:
    """What a pass makes and what it reads for that; numbers are in one row, fixed ones in the program."""

    wanted: Wanted
    wholes: dict[int, Whole]
    outers: dict[int, OuterSum]
    numbers: dict[int, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return _formulas(self.wanted)[0].shape


def _formulas(wanted: Wanted) -> list[Later]:
    pairs = [x for pair in wanted.sums for x in pair]
    return [*wanted.outputs, *pairs, *(w for _, w in wanted.rows)]


def _plan(wanted: Wanted) -> Plan:
    plan = Plan(wanted, {}, {}, {})
    for formula in _formulas(wanted):
        for part in formula.parts():
            if isinstance(part, Whole):
                plan.wholes[id(matrix(part))] = part
            elif isinstance(part, OuterSum):
                plan.outers[id(matrix(part))] = part
            elif isinstance(part, jax.Array):
                plan.numbers[id(part)] = part
    return plan


class Given(NamedTuple):
    """What a program of the card reads and where it writes, in the order of the plan."""

    numbers: list[Any]
    wholes: list[Any]
    xs: list[Any]  # the rows of outer products,
    ds: list[Any]  # and their slopes
    rows: list[Any]
    outputs: list[Any]
    sums: list[Any]  # of all pairs in one array
    row_parts: list[Any]  # of each program its own, to be added up


def _given(plan: Plan, refs: Sequence[Any]) -> Given:
    wanted, left = plan.wanted, iter(refs)
    counts = (
        1, len(plan.wholes), len(plan.outers), len(plan.outers), len(wanted.rows),
        len(wanted.outputs), min(1, len(wanted.sums)), len(wanted.rows),
    )  # fmt: skip
    return Given(*(list(islice(left, n)) for n in counts))


def _pass_kernel(plan: Plan, tall: int, stride: Stride, *refs: Any) -> None:
    wanted, given, program = plan.wanted, _given(plan, refs), pl.program_id(0)
    columns = plan.shape[1]
    column, place = count(columns, 1), jax.lax.iota(jnp.int32, columns)
    number = {key: given.numbers[0][i] for i, key in enumerate(plan.numbers)}
    outers = list(zip(plan.outers.items(), given.xs, given.ds, strict=True))
    # As a tile whose rows are equal: one row would be spread over the threads in another way than tiles are.
    across = jnp.broadcast_to(column, (stride.rows, columns))
    slopes = [[load(d, k * columns + across) for k in range(outer.d.shape[0])] for (_, outer), _, d in outers]

    def one(first: Any, totals: list[Value], products: list[Value]) -> tuple[list[Value], list[Value]]:
        """What is made of a tile is stored, or added to what others gave."""
        row = first + count(stride.rows, 0)
        tiles: dict[int, Value] = {
            key: load(ref, row * columns + column) for key, ref in zip(plan.wholes, given.wholes, strict=True)
        }
        for ((key, outer), x, _), d in zip(outers, slopes, strict=True):
            tiles[key] = total_of(load(x, k * outer.x.shape[1] + row) * d_k for k, d_k in enumerate(d))

        def read(part: Any) -> Value:
            return tiles[id(matrix(part))] if isinstance(part, Later) else number.get(id(part), part)

        for ref, formula in zip(given.outputs, wanted.outputs, strict=True):
            plt.store(ref.at[row * columns + column], formula.value(read))
        totals = [total + a.value(read) * b.value(read) for total, (a, b) in zip(totals, wanted.sums, strict=True)]
        through = zip(products, given.rows, wanted.rows, strict=True)
        return totals, [total + load(x, row) * w.value(read) for total, x, (_, w) in through]

    def some(i: Any, made: tuple[list[Value], list[Value]]) -> tuple[list[Value], list[Value]]:
        for k in range(stride.tiles):
            made = one(program * tall + i * stride.whole + k * stride.rows, *made)
        return made

    nothing = jnp.zeros((stride.rows, columns), jnp.float32)
    begun = [nothing] * len(wanted.sums), [nothing] * len(wanted.rows)
    totals, products = jax.lax.fori_loop(0, tall // stride.whole, some, begun)
    for i, total in enumerate(totals):
        given.sums[0][program * len(totals) + i] = jnp.sum(total)
    for ref, total in zip(given.row_parts, products, strict=True):
        plt.store(ref.at[program * columns + place], jnp.sum(total, axis=0))


def passed(wanted: Wanted) -> Made:
    """Everything that is wanted, each matrix being read once."""
    plan = _plan(wanted)
    rows, columns = plan.shape
    tall = math.gcd(rows, (ROWS_AMONG if wanted.outputs else ROWS_BESIDE) if wanted.beside else ROWS)
    stride = AMONG if wanted.beside else MUCH if len(wanted.outputs) > 2 else USUAL
    if tall % stride.whole:
        raise ValueError(f"a pass goes through {stride.whole} rows at a time, and {rows} rows do not divide into such")
    programs, n_sums = rows // tall, len(wanted.sums)
    outers = plan.outers.values()
    made = call(
        functools.partial(_pass_kernel, plan, tall, stride),
        [
            *[(rows * columns,)] * len(wanted.outputs), *[(programs * n_sums,)] * min(1, n_sums),
            *[(programs * columns,)] * len(wanted.rows),
        ],
        jnp.stack([jnp.asarray(x, jnp.float32) for x in (*plan.numbers.values(), 0)]),
        *(whole.array.ravel() for whole in plan.wholes.values()),
        *(outer.x.ravel() for outer in outers), *(outer.d.ravel() for outer in outers),
        *(x for x, _ in wanted.rows),
        programs=programs, warps=stride.rows, after=wanted.after,
    )  # fmt: skip
    arrays, parts = made[: len(wanted.outputs)], made[len(wanted.outputs) + min(1, n_sums) :]
    sums = list(jnp.sum(made[len(arrays)].reshape(programs, n_sums), axis=0)) if n_sums else []
    return Made(
        outputs=[array.reshape(rows, columns) for array in arrays],
        sums=sums,
        rows=[jnp.sum(y.reshape(programs, columns), axis=0) for y in parts],
    )
