"""Projections kept as factors: the arithmetic against matrices in double precision, the engine against itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numba.core.runtime import _nrt_python as runtime

from headrace.agents import BySuite, Conv, Mlp, agent_named
from headrace.engines.fast import factored
from headrace.engines.fast.engine import FastEngine
from headrace.engines.fast.factored import EVERY, FactoredLayer, Motion, pays, rows_of_trace
from headrace.engines.fast.frame import frame_of
from headrace.engines.fast.kernels.factors import NUMBERS, OLD
from headrace.engines.fast.machine import carry_out
from headrace.engines.fast.memory import Program
from headrace.engines.fast.stream import StreamPlan
from headrace.engines.jax.stream import trouble_in
from headrace.errors import CheckpointDamaged
from tests.engines.fast.parity import compare_steps
from tests.engines.fast.support import SUITES, engines, experience, on, relative_error, spec_of

KEEP = 0.792  # gamma lambda of the published agents
VECTOR, IMAGE = Mlp((6, 21), 16), Conv((4, 5), ((3, 3), (2, 2)), ((1, 1), (2, 1)), 32)
SHAPES = {VECTOR: (4,), IMAGE: (7, 8, 3)}
OWN = "stream/factors/"


@pytest.fixture
def small(monkeypatch):
    """Layers of every size are kept as factors."""
    monkeypatch.setattr(factored, "LARGE", 0)


# the arithmetic


class Exact:
    """The same layer as two matrices in double precision."""

    def __init__(self, w):
        self.w, self.z = w.astype(np.float64), np.zeros(w.shape)

    def move(self, keep, terms, rate, x, d, x_value, d_value):
        g, v = np.outer(x, d), np.outer(x_value, d_value)
        self.z = keep * self.z + g
        u = terms[0] * self.z + terms[1] * g + terms[2] * v - rate * self.w
        self.w += u
        return float((u * u).sum())


class Bench:
    """A layer of 21 inputs and 16 outputs, and one program for each thing that can be done with it."""

    def __init__(self, decays):
        frame = self.frame = frame_of(on(agent_named("qrc"), VECTOR), spec_of(SHAPES[VECTOR]))
        memory, (inputs, outputs) = frame.memory, frame.params["projection"].layers[0].shapes["w"]
        self.inputs, self.outputs, self.random = inputs, outputs, np.random.default_rng(0)
        trace = frame.block("projection", "td/trace/projection")
        self.layer = FactoredLayer(frame, "projection", trace, KEEP, 1 if decays else 2, 0)
        self.one, self.other = (
            SimpleNamespace(
                x=memory.row(inputs), y=memory.room(outputs), d=memory.room(outputs), dx=memory.room(inputs)
            )
            for _ in range(2)
        )
        self.keep, self.terms, self.rate = memory.real(0.0), memory.real(0.0, 0.0, 0.0), memory.real(0.0)
        self.square = memory.sum()
        ends = {"rate": self.rate} if decays else {"x_value": self.other.x, "d_value": self.other.d}
        motion = Motion(self.keep, self.terms, self.square, self.one.x, self.one.d, **ends)
        self.there, self.apart, self.move = Program(), Program(), Program()
        self.layer.both_ways(self.there, self.other, self.one)
        self.layer.back(self.there, self.other)
        self.layer.through(self.apart, self.other)
        self.layer.back(self.apart, self.one)
        self.layer.back(self.apart, self.other)
        self.layer.move(self.move, motion, self.one, None if decays else self.other)
        self.see = Program()
        self.layer.through(self.see, self.one)
        self.f, self.s, self.n = memory.allocate()

    def begin(self):
        w = self.frame.params["projection"]
        self.f[w.offset : w.offset + w.size] = self.random.normal(size=w.size) * 0.2
        self.layer.start(self.f, self.n)
        return self.f[w.offset : w.offset + w.size].reshape(self.inputs + 1, self.outputs).copy()

    def run(self, program):
        carry_out(program.rows(), self.f, self.s, self.n, np.zeros(0, np.int64))

    def put(self, at, values):
        self.f[at : at + np.size(values)] = values

    def get(self, at, size):
        return self.f[at : at + size].copy()

    def matrices(self):
        saved = self.layer.save(self.f, self.n)
        names = [name for name in saved if not name.startswith(OWN)]
        w, b, z, z_bias = (saved[name] for name in names)
        return np.vstack([w, b]), np.vstack([z, z_bias])


def near(got, wanted, what, tolerance=3e-6):
    error = np.linalg.norm(np.asarray(got, np.float64) - wanted) / max(np.linalg.norm(wanted), 1e-30)
    assert error <= tolerance, f"{what} is off by {error:.1e}"


def steps_of(bench, count, cuts, huge):
    """A step's inputs: latents end in a one; the gradient of one step may be huge."""
    random = bench.random
    for t in range(1, count + 1):
        x, x_value = (np.append(random.normal(size=bench.inputs), 1.0).astype("f") for _ in range(2))
        d, d_value = (random.normal(size=bench.outputs).astype("f") for _ in range(2))
        yield t, 0.0 if t in cuts else KEEP, x, d * np.float32(1e7 if t == huge else 1), x_value, d_value


@pytest.mark.parametrize("decays", [False, True], ids=["q", "h"])
@pytest.mark.parametrize(("cuts", "huge"), [((1, 20, 21, 50), 0), ((), 3)], ids=["cut", "uncut after a huge step"])
def test_steps_are_those_of_matrices(decays, cuts, huge):
    bench = Bench(decays)
    exact = Exact(bench.begin())
    old = []
    for t, keep, x, d, x_value, d_value in steps_of(bench, 5 * EVERY, cuts, huge):
        terms = bench.random.normal(size=3) * (1e-9 if huge and t < 90 else 1e-2)
        rate = 1e-3 if decays else 0.0
        bench.put(bench.one.x, x)
        bench.run(bench.see)
        near(bench.get(bench.one.y, bench.outputs), x @ exact.w, f"y at {t}", 1e-5)
        for at, values in ((bench.one.d, d), (bench.other.x, x_value), (bench.other.d, d_value)):
            bench.put(at, values)
        bench.run(bench.there)
        near(bench.get(bench.other.y, bench.outputs), x_value @ exact.w, f"y' at {t}", 1e-5)
        near(bench.get(bench.one.dx, bench.inputs), exact.w[:-1] @ d, f"dx at {t}", 1e-5)
        near(bench.get(bench.other.dx, bench.inputs), exact.w[:-1] @ d_value, f"dx' at {t}", 1e-5)
        bench.put(bench.keep, keep)
        bench.put(bench.terms, terms)
        bench.put(bench.rate, rate)
        bench.s[:], bench.n[bench.frame.step] = 0, t
        bench.run(bench.move)
        terms = terms.astype("f").astype(float) * (1, 1, 0 if decays else 1)
        square = exact.move(np.float64(np.float32(keep)), terms, rate, x, d, x_value, d_value)
        assert bench.s[bench.square] == pytest.approx(square, rel=1e-4), f"||u||^2 at {t}"
        w, z = bench.matrices()
        near(w, exact.w, f"W at {t}")
        near(z, exact.z, f"Z at {t}")
        old.append(bench.f[bench.layer._state + OLD])
    assert any(old) == bool(huge), "only a huge step outlives its rows, and goes on as a matrix"
    assert old[-1] == 0, "and that ends, too"


def test_both_ways_in_one_pass_are_each_way_to_the_bit():
    bench = Bench(decays=False)
    bench.begin()
    for t, keep, x, d, x_value, d_value in steps_of(bench, 5, (), 0):
        for at, values in ((bench.one.x, x), (bench.one.d, d), (bench.other.x, x_value), (bench.other.d, d_value)):
            bench.put(at, values)
        bench.run(bench.see)
        found = []
        for program in (bench.there, bench.apart):
            bench.run(program)
            found.append([bench.get(bench.other.y, bench.outputs), bench.get(bench.one.dx, bench.inputs)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)
        bench.put(bench.keep, keep)
        bench.put(bench.terms, [0.1, 0.2, 0.3])
        bench.n[bench.frame.step] = t
        bench.run(bench.move)


def test_only_large_layers_whose_trace_is_short_are_kept_as_factors():
    atari = StreamPlan(agent_named("qrc"), spec_of(SUITES["atari"])).td
    assert len(atari.factored) == 2
    assert not pays(atari.weights.projection, 0.99)
    assert len(StreamPlan(agent_named("qrc+spr+orth"), spec_of(SUITES["atari"])).td.factored) == 1
    assert len(StreamPlan(agent_named("qrc"), spec_of(SUITES["octax"])).td.factored) == 2
    assert StreamPlan(agent_named("strq"), spec_of(SUITES["atari"])).td.factored == []
    assert StreamPlan(agent_named("qrc"), spec_of(SUITES["minatar"])).td.factored == []
    assert rows_of_trace(0.0) == 2
    assert rows_of_trace(0.5) == 22


# the engine


def engine_of(network=VECTOR, name="qrc", **settings):
    return FastEngine(on(agent_named(name), network), spec_of(SHAPES[network]), seed=3, steps=100, **settings)


def run(engine, answers):
    for timestep in answers:
        engine.learn(timestep)
    return engine.save()


def same(a, b):
    return set(a) == set(b) and all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)


def written_out(state):
    return {name: array for name, array in state.items() if not name.startswith(OWN)}


@pytest.mark.parametrize("name", ["qrc", "qrc+spr+orth"])
def test_a_stream_that_is_saved_and_restored_at_any_step_goes_on_to_the_bit(small, name):
    first, answers = experience(SHAPES[VECTOR], 3 * EVERY)
    whole, saved = engine_of(name=name), engine_of(name=name)
    whole.begin(first)
    saved.begin(first)
    for answer in answers:
        state = run(saved, [answer])
        saved = engine_of(name=name)
        saved.restore(state)
    assert len(whole._plan.td.factored) == (2 if name == "qrc" else 1)
    assert same(run(whole, answers), saved.save())


def test_a_stream_that_another_engine_began_goes_on_to_the_bit_too(small):
    """The trace comes as a matrix, and is kept as one until it has decayed."""
    first, answers = experience(SHAPES[VECTOR], 80)
    before = engine_of()
    before.begin(first)
    state = written_out(run(before, answers[:5]))
    whole, saved = engine_of(), engine_of()
    whole.restore(state)
    saved.restore(state)
    for answer in answers[5:]:
        state = run(saved, [answer])
        saved = engine_of()
        saved.restore(state)
    assert same(run(whole, answers[5:]), saved.save())
    assert any(name.endswith("old_trace") for name in run(_restored(before), answers[5:7]))
    assert not any(name.endswith("old_trace") for name in saved.save())


def _restored(engine):
    found = engine_of()
    found.restore(written_out(engine.save()))
    return found


@pytest.mark.parametrize("network", [IMAGE, VECTOR], ids=["image", "vector"])
def test_two_threads_give_the_result_of_one_to_the_bit(small, network):
    first, answers = experience(SHAPES[network], 80)
    states = []
    for threads in (1, 2):
        engine = engine_of(network, threads=threads)
        engine.begin(first)
        run(engine, answers[:20])  # saving in between changes nothing
        states.append(run(engine, answers[20:]))
    assert same(*states)


def test_what_is_written_out_is_what_the_engine_without_factors_saves(monkeypatch):
    """A hundred steps on MinAtar's shape; the other engine is put into the state that was written out before each."""
    first, answers = experience(SUITES["minatar"], 100)
    engines = []
    for large in (0, 2**40):
        monkeypatch.setattr(factored, "LARGE", large)
        engine = FastEngine(on(agent_named("qrc"), BySuite()), spec_of(SUITES["minatar"]), seed=0, steps=10)
        engine.begin(first)
        engines.append(engine)
    with_factors, without = engines
    for t, timestep in enumerate(answers):
        got, wanted = run(with_factors, [timestep]), run(without, [timestep])
        assert set(written_out(got)) == set(wanted)
        assert len(got) > len(wanted)
        for name in (n for n in wanted if "projection" in n):
            assert relative_error(got[name], wanted[name]) < 1e-5, f"{name} at {t}"
        without.restore(written_out(got))


def test_a_step_gives_the_state_of_the_reference_engine(small):
    compare_steps(on(agent_named("qrc"), BySuite()), spec_of(SUITES["minatar"]), 20)


def test_a_divergence_is_noticed_at_the_same_step_in_the_same_quantity(small):
    first, answers = experience(SUITES["vector"], 12)
    broken = [a._replace(reward=np.float32(3e38)) if t >= 6 else a for t, a in enumerate(answers)]
    reference, fast = engines(on(agent_named("qrc"), BySuite()), spec_of(SUITES["vector"]))
    reference.begin(first)
    fast.begin(first)
    assert len(fast._plan.td.factored) == 2
    for answer in broken:
        reference.learn(answer)
        fast.learn(answer)
        assert fast.trouble() == trouble_in(reference.state.tally)
    assert fast.trouble() is not None


def test_a_restart_forgets_the_trace(small):
    first, answers = experience(SHAPES[VECTOR], 10)
    engine = engine_of()
    engine.begin(first)
    run(engine, answers)
    engine.restart(first)
    after = engine.save()
    assert all(not after[name].any() for name in after if "_trace" in name)


def test_no_memory_is_allocated_by_a_step(small):
    """But for numba's own records of the five arrays it is handed."""
    first, answers = experience(SHAPES[IMAGE], 20 + 2 * EVERY)
    engine = engine_of(IMAGE)
    engine.begin(first)
    run(engine, answers[:20])
    runtime.memsys_enable_stats()
    try:
        taken = runtime.memsys_get_stats_alloc()
        for timestep in answers[20:]:
            engine.learn(timestep)
        assert runtime.memsys_get_stats_alloc() - taken == 5 * len(answers[20:])
    finally:
        runtime.memsys_disable_stats()


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda state: state.pop(f"{OWN}projection/d"), f"it has no array {OWN}projection/d"),
        (lambda state: state.update({f"{OWN}projection/count": np.array(10**6, np.int32)}), "count is 1000000, not 0"),
        (lambda state: state.pop("stream/agent/params/projection/0/w"), "it has no array stream/agent/params/proj"),
        (lambda state: state.update({f"{OWN}projection/numbers": np.zeros(NUMBERS, "f")}), "numbers is float32"),
    ],
)
def test_a_damaged_state_is_refused_whole(small, spoil, what):
    first, answers = experience(SHAPES[VECTOR], 5)
    engine = engine_of()
    engine.begin(first)
    before = run(engine, answers)
    spoilt = dict(before)
    spoil(spoilt)
    with pytest.raises(CheckpointDamaged, match=what):
        engine.restore(spoilt)
    assert same(before, engine.save())


def test_a_window_of_another_size_is_not_taken_but_what_is_written_out(small):
    first, answers = experience(SHAPES[VECTOR], 5)
    engine = engine_of()
    engine.begin(first)
    state = run(engine, answers)
    for name in ("projection", "h_projection"):
        state[f"{OWN}{name}/x"] = np.zeros((3, 4), "f")
    other = engine_of()
    other.restore(state)
    got = other.save()
    for name in written_out(state):
        np.testing.assert_array_equal(got[name], state[name], err_msg=name)


@pytest.mark.long
def test_saved_and_restored_at_ataris_size():
    first, answers = experience(SUITES["atari"], 40)
    agent, spec = on(agent_named("qrc"), BySuite()), spec_of(SUITES["atari"])
    whole, saved = (FastEngine(agent, spec, seed=0, steps=10) for _ in range(2))
    whole.begin(first)
    saved.begin(first)
    for cut in (15, 17, 32, 33):
        state = run(saved, answers[saved.step : cut])
        saved = FastEngine(agent, spec, seed=0, steps=10)
        saved.restore(state)
    assert same(run(whole, answers), run(saved, answers[33:]))
