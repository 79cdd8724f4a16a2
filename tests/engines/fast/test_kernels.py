"""Passes over dense layers against NumPy in double precision, for widths that fill vectors and for such that do not."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import agent_named
from headrace.engines.fast import machine
from headrace.engines.fast.kernels import directions, layers, outers
from headrace.engines.fast.kernels.directions import C_KEEP, C_TAKE, COEFFICIENTS, DIRECTIONS, C, G, U, Z
from headrace.engines.fast.memory import NONE
from headrace.engines.fast.updates import mask_of, merging, pairs_needed
from tests.engines.fast.bench import Bench, close

SHAPES = [(5, 3), (8, 16), (13, 20), (6, 41)]


@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 11])
def test_dense_layers_forwards_and_back(inputs, outputs, count):
    bench = Bench()
    w, x, d = (
        bench.array("w", inputs + 1, outputs),
        bench.array("x", count, inputs + 1),
        bench.array("d", count, outputs),
    )
    bench.array("y", count, outputs)
    bench.array("dx", count, inputs)
    at = bench.at
    bench.program.emit(layers.dense, w=at["w"], x=at["x"], y=at["y"], count=count, inputs=inputs + 1, outputs=outputs)
    bench.program.emit(
        layers.dense_back, w=at["w"], d=at["d"], dx=at["dx"], count=count, inputs=inputs, outputs=outputs
    )
    bench.run()
    close(bench["y"], x @ w)
    close(bench["dx"], d @ w[:-1].T)


@pytest.mark.parametrize(("inputs", "outputs"), [*SHAPES, (33, 48), (50, 512)])
@pytest.mark.parametrize("count", [1, 2, 11])
def test_both_ways_in_one_pass_are_each_way_to_the_bit(inputs, outputs, count):
    """One thread takes the one pass, two threads the two: their results have to be equal."""
    apart, together = Bench(), Bench()
    for bench in (apart, together):
        bench.array("w", inputs + 1, outputs)
        bench.array("x", count, inputs + 1)
        bench.array("d", outputs)
        bench.array("y", count, outputs)
        bench.array("dx", inputs)
    at, sizes = apart.at, {"inputs": inputs, "outputs": outputs}
    forwards = {"w": at["w"], "x": at["x"], "y": at["y"], "count": count}
    apart.program.emit(layers.dense, **forwards, inputs=inputs + 1, outputs=outputs)
    apart.program.emit(layers.dense_back, w=at["w"], d=at["d"], dx=at["dx"], count=1, **sizes)
    together.program.emit(layers.dense_both_ways, **forwards, d=at["d"], dx=at["dx"], **sizes)
    apart.run()
    together.run()
    for name in ("y", "dx"):
        np.testing.assert_array_equal(apart[name], together[name])


@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@pytest.mark.parametrize("keep", [0.7, 0.0])
def test_the_length_of_a_trace_before_it_moves(inputs, outputs, keep):
    bench = Bench()
    z, x, d = bench.array("z", inputs, outputs), bench.array("x", inputs), bench.array("d", outputs)
    bench.array("keep", values=[keep])
    out = bench.memory.sum()
    places = {name: bench.at[name] for name in ("z", "x", "d", "keep")}
    bench.program.emit(outers.outer_trace_size, **places, inputs=inputs, outputs=outputs, out=out)
    assert bench.run().s[out] == pytest.approx(np.abs(np.float32(keep) * z + np.outer(x, d)).sum(), rel=1e-5)


def test_a_trace_that_was_cut_has_the_length_of_one_that_is_zero_to_the_bit():
    """A saved stream has its cut traces cleared, and goes on with them as if they never had been."""
    found = []
    for keep, scale in ((0.0, 1.0), (0.7, 0.0)):
        bench, out = Bench(), 0
        bench.array("z", 13, 20)
        bench.first["z"] *= scale
        bench.array("x", 13)
        bench.array("d", 20)
        bench.array("keep", values=[keep])
        out = bench.memory.sum()
        bench.program.emit(outers.outer_trace_size, **bench.at, inputs=13, outputs=20, out=out)
        found.append(bench.run().s[out])
    assert found[0] == found[1]


def layer(bench, inputs, outputs, count):
    """A layer with everything that can move it; operands of `outer_update`."""
    return {
        "w": bench.array("w", inputs, outputs), "z": bench.array("z", inputs, outputs),
        "x": bench.array("x", inputs), "d": bench.array("d", outputs),
        "x_value": bench.array("x_value", inputs), "d_value": bench.array("d_value", outputs),
        "c": bench.array("c", inputs, outputs), "x_aux": bench.array("x_aux", count, inputs),
        "d_aux": bench.array("d_aux", count, outputs), "x_next": bench.array("x_next", inputs),
        "terms": bench.array("terms", values=[0.3, -0.2, 0.1]), "keep": bench.array("keep", values=[0.7]),
        "y": bench.array("y", outputs), "rows": bench.array("rows", 3, outputs),
    }  # fmt: skip


@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize(("value", "along_g"), [(True, -0.2), (False, -0.2), (False, 0.0)])
@pytest.mark.parametrize("past", [True, False])
def test_a_layer_moves_along_everything_in_one_pass(inputs, outputs, count, value, along_g, past):
    """The last is the way of a rule that follows its trace and nothing else."""
    bench = Bench()
    made = layer(bench, inputs, outputs, count)
    made["terms"][1] = bench.first["terms"][1] = along_g
    k = np.zeros(COEFFICIENTS)
    k[U], k[G], k[C], k[C_KEEP], k[C_TAKE] = 0.9, -0.4, 0.2, 0.6, 0.4
    bench.array("coefficients", values=k)
    active, square = bench.memory.whole(1), bench.memory.sum()
    absent = ({} if value else {"x_value": NONE, "d_value": NONE}) | ({} if past else {"c": NONE})
    bench.program.emit(
        outers.outer_update, **{**bench.at, **absent}, active=active, inputs=inputs, outputs=outputs, count=count,
        e=NONE, m=NONE, square=square,
    )  # fmt: skip
    bench.run()
    a, b, v = made["terms"] if value else (*made["terms"][:2], 0.0)
    own, other = np.outer(made["x"], made["d"]), np.outer(made["x_value"], made["d_value"])
    trace = 0.7 * made["z"] + own
    u, g = a * trace + b * own + v * other, made["x_aux"].T @ made["d_aux"]
    w = made["w"] + 0.9 * u - 0.4 * g + (0.2 * made["c"] if past else 0)
    close(bench["z"], trace)
    close(bench["w"], w)
    close(bench["c"], 0.6 * made["c"] + 0.4 * g if past else made["c"])
    close(bench["y"], made["x_next"] @ w)
    assert bench.s[square] == pytest.approx((u * u).sum(), rel=1e-5)


@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_the_inner_products_that_a_history_is_judged_by(inputs, outputs):
    bench = Bench()
    made = layer(bench, inputs, outputs, 5)
    active, gram = bench.memory.whole(1), bench.memory.sum(DIRECTIONS**2)
    operands = {name: at for name, at in bench.at.items() if name not in ("w", "x_next", "y")}
    bench.program.emit(
        outers.outer_products, **operands, active=active, gram=gram, mask=outers.HISTORY_ONLY, mask_at_rest=0,
        inputs=inputs, outputs=outputs, count=5, e=NONE, m=NONE,
    )  # fmt: skip
    bench.run()
    g = made["x_aux"].T @ made["d_aux"]
    assert bench.s[gram + DIRECTIONS * G + C] == pytest.approx((g * made["c"]).sum(), rel=1e-4, abs=1e-4)
    assert bench.s[gram + DIRECTIONS * C + C] == pytest.approx((made["c"] ** 2).sum(), rel=1e-5)


@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@pytest.mark.parametrize(("keep", "traced"), [(0.7, True), (0.0, True), (0.7, False)])
def test_the_inner_products_that_orth2_is_judged_by_beside_them(inputs, outputs, keep, traced):
    """Of a trace that goes on, of one that was cut and of none: of the last two nothing old is looked at."""
    bench = Bench()
    made = layer(bench, inputs, outputs, 5)
    bench.first["keep"][:] = keep
    if keep == 0:
        bench.first["z"][:] = np.nan
    active, gram = bench.memory.whole(1), bench.memory.sum(DIRECTIONS**2)
    operands = {name: at for name, at in bench.at.items() if name not in ("w", "x_next", "y")}
    operands |= {} if traced else {"z": NONE}
    bench.program.emit(
        outers.outer_products, **operands, active=active, gram=gram, mask=outers.HISTORY_AND_TRACE, mask_at_rest=0,
        inputs=inputs, outputs=outputs, count=5, e=NONE, m=NONE,
    )  # fmt: skip
    bench.run()
    g, c, new = made["x_aux"].T @ made["d_aux"], made["c"], np.outer(made["x"], made["d"])
    trace = np.float32(keep) * made["z"] + new if traced and keep else new
    wanted = {(G, C): g * c, (C, C): c * c, (G, Z): g * trace, (C, Z): c * trace, (Z, Z): trace**2}
    for (i, j), products in wanted.items():
        found = bench.s[gram + DIRECTIONS * i + j], bench.s[gram + DIRECTIONS * j + i]
        assert found == pytest.approx((products.sum(),) * 2, rel=1e-4, abs=1e-4)


def test_orth2_of_stream_q_needs_just_these() -> None:
    rule = merging(agent_named("strq+spr+orth2").merge, agent_named("strq+spr+orth2"))
    pairs = pairs_needed(rule, directions.NO_FILTER, directions.RAW, directions.SHARED, told=False)
    assert mask_of(pairs - {(G, G)}) == outers.HISTORY_AND_TRACE


def combined(products, history, beta):
    """What becomes of an auxiliary's module with such inner products: coefficients, squared length, cosines."""
    bench = Bench()
    memory = bench.memory
    gram, out, square = memory.sum(DIRECTIONS**2), memory.room(COEFFICIENTS), memory.sum()
    one, told = memory.real(1.0), memory.real(7.0, 7.0)
    bench.program.emit(
        directions.combine, gram=gram, td_gram=gram, aux_gram=gram, out=out, active=memory.whole(1), descent=one,
        mix=one, share=directions.AUX_ALONE, td_filter=directions.NO_FILTER, td_beta=one, aux_filter=history,
        aux_beta=memory.real(beta), merge=directions.AS_THEY_ARE, join=directions.SUM, average_beta=one,
        aux_square=square, cosines=told,
    )  # fmt: skip
    f, s, n = memory.allocate()
    for (i, j), value in products.items():
        s[gram + DIRECTIONS * i + j] = s[gram + DIRECTIONS * j + i] = value
    machine.carry_out(bench.program.rows(), f, s, n, np.zeros(0, np.int64))
    return f[out : out + COEFFICIENTS], s[square], f[told : told + 2].tolist()


def test_what_rounding_leaves_of_two_parallel_vectors_has_no_negative_length() -> None:
    """Met on Atari after 317,338 steps: the norm of SPR's update was the root of a number below zero."""
    products = {(U, U): 1.0, (G, G): 1.0, (C, C): 1.0, (G, C): 1 + 1e-7}
    _, square, cosines = combined(products, directions.RAW, 0.99)
    assert square == 0
    assert cosines == [0, 0]


@pytest.mark.parametrize(
    ("history", "along_g", "along_c", "keep", "take"),
    [
        (directions.RAW, 1, -1 / 4, 0.9, 0.1),
        (directions.PROJECTED, 1, -1 / 4, 0.9 - 0.1 / 4, 0.1),
        (directions.RAW_CURRENT, 1 - 0.1 / 3.43, -0.9 / 3.43, 0.9, 0.1),
    ],
)
def test_histories_by_hand(history, along_g, along_c, keep, take) -> None:
    """g.g = 1, c.c = 4, g.c = 1; with p = 0.9 c + 0.1 g, g.p = 1 and p.p = 3.43."""
    found, _, _ = combined({(G, G): 1.0, (C, C): 4.0, (G, C): 1.0}, history, 0.9)
    close(found[[G, C, C_KEEP, C_TAKE]], [along_g, along_c, keep, take])
