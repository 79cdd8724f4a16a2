"""One pass over matrices of equal shape: everything that is to be made of them, tile by tile."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.programs import call, count, load, total_of
from headrace.engines.reference.later import Later, OuterSum, Pair, Value, Whole, matrix

TALL = 8  # rows that a program has in its registers
ROWS = 32  # rows that a program goes through


@dataclass(frozen=True)
class Plan:
    """What a pass reads and makes; numbers are in one row, fixed ones in the program."""

    outputs: list[Later]
    sums: list[Pair]
    vectors: list[Pair]  # what goes through a matrix, and which
    wholes: dict[int, Whole]
    outers: dict[int, OuterSum]
    numbers: dict[int, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.formulas[0].shape

    @property
    def formulas(self) -> list[Later]:
        return [*self.outputs, *(x for pair in self.sums for x in pair), *(w for _, w in self.vectors)]


def _plan(outputs: list[Later], sums: list[Pair], vectors: list[Pair]) -> Plan:
    plan = Plan(outputs, sums, vectors, {}, {}, {})
    for formula in plan.formulas:
        for part in formula.parts():
            if isinstance(part, Whole):
                plan.wholes[id(matrix(part))] = part
            elif isinstance(part, OuterSum):
                plan.outers[id(matrix(part))] = part
            elif isinstance(part, jax.Array):
                plan.numbers[id(part)] = part
    return plan


def _pass_kernel(plan: Plan, *refs: Any) -> None:
    (_, columns), n = plan.shape, len(plan.wholes)
    numbers, wholes, rest = refs[0], refs[1 : n + 1], refs[n + 1 :]
    factors, rest = rest[: 2 * len(plan.outers)], rest[2 * len(plan.outers) :]
    vectors, made = rest[: len(plan.vectors)], rest[len(plan.vectors) :]
    column = count(columns, 1)
    number = {key: numbers[i] for i, key in enumerate(plan.numbers)}
    ds = [[load(d, k * columns + column) for k in range(outer.d.shape[0])] for d, outer in _with(factors[1::2], plan)]
    totals = [jnp.zeros((TALL, columns), jnp.float32)] * len(plan.sums)
    products = [jnp.zeros((TALL, columns), jnp.float32)] * len(plan.vectors)
    for start in range(0, ROWS, TALL):
        row = pl.program_id(0) * ROWS + start + count(TALL, 0)
        at = row * columns + column
        tiles: dict[int, Value] = {key: load(ref, at) for key, ref in zip(plan.wholes, wholes, strict=True)}
        for (x, outer), d, key in zip(_with(factors[::2], plan), ds, plan.outers, strict=True):
            inputs = outer.x.shape[1]
            tiles[key] = total_of(load(x, k * inputs + row) * d_k for k, d_k in enumerate(d))

        def read(part: Any, tiles: dict[int, Value] = tiles) -> Value:
            return tiles[id(matrix(part))] if isinstance(part, Later) else number.get(id(part), part)

        for ref, formula in zip(made, plan.outputs, strict=False):
            plt.store(ref.at[at], formula.value(read))
        totals = [total + a.value(read) * b.value(read) for total, (a, b) in zip(totals, plan.sums, strict=True)]
        products = [
            total + load(x, row) * w.value(read)
            for total, x, (_, w) in zip(products, vectors, plan.vectors, strict=True)
        ]
    for i, total in enumerate(totals):
        made[len(plan.outputs)][pl.program_id(0) * len(totals) + i] = jnp.sum(total)
    for ref, total in zip(made[len(made) - len(products) :], products, strict=True):
        plt.store(ref.at[pl.program_id(0) * columns + jax.lax.iota(jnp.int32, columns)], jnp.sum(total, axis=0))


def _with(refs: Any, plan: Plan) -> Any:
    return zip(refs, plan.outers.values(), strict=True)


def passed(
    outputs: list[Later], sums: list[Pair], vectors: list[Pair]
) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
    """The outputs as arrays, the inner product of each pair, and each vector times its matrix."""
    plan = _plan(outputs, sums, vectors)
    rows, columns = plan.shape
    programs = rows // ROWS
    numbers = jnp.stack([jnp.asarray(x, jnp.float32) for x in (*plan.numbers.values(), 0)])
    factors = [y.ravel() for outer in plan.outers.values() for y in (outer.x, outer.d)]
    shapes: list[tuple[int, ...]] = [(rows * columns,)] * len(outputs)
    made = call(
        functools.partial(_pass_kernel, plan),
        [*shapes, *([(programs * len(sums),)] if sums else []), *([(programs * columns,)] * len(vectors))],
        numbers, *(whole.array.ravel() for whole in plan.wholes.values()), *factors, *(x for x, _ in vectors),
        programs=programs,
    )  # fmt: skip
    totals = list(jnp.sum(made[len(outputs)].reshape(programs, len(sums)), axis=0)) if sums else []
    products = [jnp.sum(y.reshape(programs, columns), axis=0) for y in made[len(made) - len(vectors) :]]
    return [array.reshape(rows, columns) for array in made[: len(outputs)]], totals, products
