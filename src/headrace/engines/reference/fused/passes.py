"""One pass over matrices of equal shape: everything that is to be made of them, tile by tile."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.programs import call, count, load, total_of
from headrace.engines.reference.later import Later, Made, OuterSum, Value, Wanted, Whole, matrix


@dataclass(frozen=True)
class Plan:
    """What a pass reads; numbers are in one row, fixed ones in the program."""

    wanted: Wanted
    wholes: dict[int, Whole]
    outers: dict[int, OuterSum]
    numbers: dict[int, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return _formulas(self.wanted)[0].shape


class Tiles(NamedTuple):
    """How a program goes through its part of the matrices."""

    rows: int  # that it goes through
    tall: int  # of these it has in its registers


MANY, FEW = Tiles(32, 8), Tiles(512, 16)  # as many programs as can be, or so few that all find room at once


def _formulas(wanted: Wanted) -> list[Later]:
    pairs = [x for pair in wanted.sums for x in pair]
    return [*wanted.outputs, *pairs, *(w for _, w in wanted.rows), *(w for w, _ in wanted.columns)]


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


def _pass_kernel(plan: Plan, tiles: Tiles, *refs: Any) -> None:
    wanted, (_, columns), program = plan.wanted, plan.shape, pl.program_id(0)
    given = iter(refs)
    numbers, wholes = next(given), _take(given, plan.wholes)
    xs, ds = _take(given, plan.outers), _take(given, plan.outers)
    vectors, slopes = _take(given, wanted.rows), _take(given, wanted.columns)
    outputs, sums = _take(given, wanted.outputs), _take(given, wanted.sums[:1])
    row_parts, columns_made = _take(given, wanted.rows), _take(given, wanted.columns)
    column = count(columns, 1)
    number = {key: numbers[i] for i, key in enumerate(plan.numbers)}
    outer_ds = [
        [load(d, k * columns + column) for k in range(outer.d.shape[0])]
        for d, outer in zip(ds, plan.outers.values(), strict=True)
    ]
    slopes = [load(d, column) for d in slopes]
    nothing = jnp.zeros((tiles.tall, columns), jnp.float32)

    def one(i: Any, totals: list[jax.Array]) -> list[jax.Array]:
        row = program * tiles.rows + i * tiles.tall + count(tiles.tall, 0)
        at = row * columns + column
        found: dict[int, Value] = {key: load(ref, at) for key, ref in zip(plan.wholes, wholes, strict=True)}
        for x, d, (key, outer) in zip(xs, outer_ds, plan.outers.items(), strict=True):
            found[key] = total_of(load(x, k * outer.x.shape[1] + row) * d_k for k, d_k in enumerate(d))

        def read(part: Any) -> Value:
            return found[id(matrix(part))] if isinstance(part, Later) else number.get(id(part), part)

        for ref, formula in zip(outputs, wanted.outputs, strict=True):
            plt.store(ref.at[at], formula.value(read))
        for ref, d, (w, _) in zip(columns_made, slopes, wanted.columns, strict=True):
            plt.store(
                ref.at[program * tiles.rows + i * tiles.tall + jax.lax.iota(jnp.int32, tiles.tall)],
                jnp.sum(w.value(read) * d, axis=1),
            )
        more = [a.value(read) * b.value(read) for a, b in wanted.sums]
        more += [load(x, row) * w.value(read) for x, (_, w) in zip(vectors, wanted.rows, strict=True)]
        return [total + term for total, term in zip(totals, more, strict=True)]

    totals = [nothing] * (len(wanted.sums) + len(vectors))
    if tiles.rows <= 4 * tiles.tall:  # laid out: the next rows are on their way while these are used
        for i in range(tiles.rows // tiles.tall):
            totals = one(i, totals)
    else:
        totals = jax.lax.fori_loop(0, tiles.rows // tiles.tall, one, totals)
    for i, total in enumerate(totals[: len(wanted.sums)]):
        sums[0][program * len(wanted.sums) + i] = jnp.sum(total)
    for ref, total in zip(row_parts, totals[len(wanted.sums) :], strict=True):
        plt.store(ref.at[program * columns + jax.lax.iota(jnp.int32, columns)], jnp.sum(total, axis=0))


def _take(refs: Iterator[Any], like: Sized) -> list[Any]:
    return [next(refs) for _ in range(len(like))]


def passed(wanted: Wanted) -> Made:
    plan = _plan(wanted)
    rows, columns = plan.shape
    tiles = FEW if wanted.beside and rows % FEW.rows == 0 else MANY
    programs = rows // tiles.rows
    numbers = jnp.stack([jnp.asarray(x, jnp.float32) for x in (*plan.numbers.values(), 0)])
    outers, arrays = list(plan.outers.values()), len(wanted.outputs)
    shapes = [(rows * columns,)] * arrays + [(programs * len(wanted.sums),)] * bool(wanted.sums)
    made = call(
        functools.partial(_pass_kernel, plan, tiles),
        [*shapes, *[(programs * columns,)] * len(wanted.rows), *[(rows,)] * len(wanted.columns)],
        numbers, *(whole.array.ravel() for whole in plan.wholes.values()),
        *(outer.x.ravel() for outer in outers), *(outer.d.ravel() for outer in outers),
        *(x for x, _ in wanted.rows), *(d for _, d in wanted.columns),
        programs=programs,
    )  # fmt: skip
    given = iter(made)
    return Made(
        [array.reshape(rows, columns) for array in _take(given, wanted.outputs)],
        [x for parts in _take(given, wanted.sums[:1]) for x in jnp.sum(parts.reshape(programs, -1), axis=0)],
        [jnp.sum(parts.reshape(programs, columns), axis=0) for parts in _take(given, wanted.rows)],
        _take(given, wanted.columns),
    )
