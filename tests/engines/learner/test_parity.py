"""Every step's new state is the reference engine's: two independent derivations of the same agents.

The usual run holds most of the nine variants to it on vectors, one on MinAtar's shape, and every other switch in a few
agents that have many of them; the whole table (all agents, all shapes) is a long run.
"""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import VARIANTS, BySuite, agent_named, tweak
from headrace.engines.learner.engine import LearnerEngine
from headrace.envs.base import TimeStep
from tests.engines.learner.free import FREE_TOLERANCE, run_free
from tests.engines.learner.parity import METRICS, compare_answers, compare_steps
from tests.engines.learner.support import (
    IMAGE,
    SMALL,
    SUITES,
    VECTOR,
    WITH_BOXES,
    engines,
    experience,
    on,
    spec_of,
    worst_error,
)

# Of each rule the barest and the fullest; what is between them is of the same pieces.
USUAL = [*((name, "vector") for name in VARIANTS if name not in ("strq+spr", "strq+spr+orth", "qrc+spr")),
         ("qrc+spr+orth", "minatar")]  # fmt: skip


def parity(agent, spec, steps):
    """Every array of every step within 1e-5, or else the learner nearer the truth: `compare_steps`."""
    compare_steps(agent, spec, steps)


def near(agent, spec, steps, tolerance, unsure=()):
    """As `parity` with a tolerance of its own, and metrics that are not looked at."""
    reference, fast = engines(agent, spec)
    first, answers = experience(spec.frame_shape, steps)
    reference.begin(first)
    fast.begin(first)
    for t, timestep in enumerate(answers):
        fast.restore(reference.save())
        reference.learn(timestep)
        fast.learn(timestep)
        compare(fast.save(), reference.save(), tolerance, f"step {t}", unsure)


NOTHING = (
    1e-6  # an array shorter than this is what rounding left of 0, as where RawCurrent takes all of a gradient away
)


def compare(got, wanted, tolerance, when, unsure=()):
    state = {name: array for name, array in wanted.items() if not name.startswith(METRICS)}
    real = {name: array for name, array in state.items() if np.linalg.norm(array) > NOTHING}
    error, name = worst_error({name: got[name] for name in real}, real)
    assert error <= tolerance, f"{name} differs by {error:.1e} at {when}"
    for name in state.keys() - real.keys():
        assert np.linalg.norm(got[name]) <= 2 * NOTHING, f"{name} is not nothing at {when}"
    for name in wanted.keys() - state.keys() - {f"stream/tally/aux_sums/{metric}" for metric in unsure}:
        close = {"rtol": 10 * tolerance, "atol": 5 * tolerance}
        np.testing.assert_allclose(got[name], wanted[name], **close, err_msg=f"{name} at {when}")


@pytest.mark.parametrize(("name", "suite"), USUAL)
def test_a_step_gives_the_state_of_the_reference_engine(name, suite):
    parity(on(agent_named(name), BySuite()), spec_of(SUITES[suite]), 40)


# Every switch in one of few agents, each of which takes the reference engine seconds to compile. RawCurrent leaves
# nothing of the first gradient but what rounding does: it is tested by hand.
SWITCHED = {
    "qrc+spr": (
        "td_filter=Orth(0.9)", "td.target=Copy(3)", "aux.objective.reduce=MeanOverHorizon",
        "aux.objective.projection=Separate", "aux.objective.target=Polyak(0.9)", "aux.gate=Every(2)",
        "aux.filter=Orth(0.9, Projected)", "merge=AuxOrthogonalToTd(Average(0.9), Sum)",
    ),
    "strq+spr": (
        "aux.gate=Greedy", "aux.objective.target=Copy(5)", "merge=PcGrad", "aux.objective.window=ReleasedRing",
        "td.step_size=Adaptive", "td.lr=4.6e-4",
    ),
    "strq+spr+orth2": ("td_filter=Orth(0.9)", "td.step_size=Intentional", "td.lr=0.25"),
    "dqn+spr": ("td.memory=Replay(3)", "td.target=Polyak(0.9)", "merge=SharedFlipped", "aux.objective.augment=Clipped"),
}  # fmt: skip

SOMETIMES = "explore=EpsilonGreedy(0.5, 0.1)"
# An actor-critic's, in a box or not: agent, settings, suite.
ACTING = [
    ("ac+spr+orth", (SOMETIMES,), "vector", True),
    ("ac+spr+orth2", ("td.encoder=OneEncoder", "td.entropy=0.5", SOMETIMES), "minatar", False),
]
ACTING_TOO = [
    ("ac", (), "vector", False),
    ("ac", (), "minatar", True),
    ("ac+intentional", ("td.encoder=OneEncoder",), "vector", False),
    ("ac+spr", ("aux.objective.window=ReleasedRing", "aux.gate=Greedy", SOMETIMES), "vector", True),
    ("ac+spr+orth", ("td.encoder=OneEncoder", "network.head=Relu", "td.step_size=Sgd", "td.lr=1e-3"), "vector", True),
    ("ac+spr+orth2", ("td.encoder=OneEncoder", "td.step_size=Adaptive", "td.lr=4.6e-4",
                      "td.actor_step_size=Intentional", "td.actor_lr=0.05"), "vector", True),
    ("ac+spr+orth2", ("td.encoder=OneEncoder", "merge=Bounded(PcGrad, 0.01)", "td_filter=Orth(0.9)"), "vector", False),
    ("ac+spr+orth2", ("merge=AuxOrthogonalToTd(Average(0.9))", "aux.objective.projection=Separate"), "minatar", True),
    ("ac+spr+orth2", (), "atari", False),
]  # fmt: skip


@pytest.mark.parametrize("name", SWITCHED)
def test_every_switch_is_the_reference_engines(name):
    agent = tweak(agent_named(name), *SWITCHED[name], "aux.objective.horizon=3")
    parity(on(agent, BySuite()), spec_of(SUITES["vector"]), 40)


@pytest.mark.parametrize(
    ("name", "settings", "suite", "box"),
    [*ACTING, *(pytest.param(*case, marks=pytest.mark.long) for case in ACTING_TOO)],
)
def test_a_step_of_an_actor_critic_is_the_reference_engines(name, settings, suite, box):
    compare_steps(tweak(agent_named(name), *settings), spec_of(SUITES[suite], box=box), 12 if suite == "atari" else 40)


def test_plain_steps_are_those_of_a_bound_that_never_acts():
    first, answers = experience(SUITES["vector"], 30)
    states = []
    for step_size in ("step_size=ObGd", "kappa=0"), ("step_size=Sgd", "kappa=2"):
        agent = tweak(agent_named("strq"), "td.lr=1e-3", *(f"td.{setting}" for setting in step_size))
        engine = LearnerEngine(on(agent, BySuite()), spec_of(SUITES["vector"]), seed=0, steps=1000)
        engine.begin(first)
        for timestep in answers:
            engine.learn(timestep)
        states.append(engine.save())
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0] | states[1])


def test_frames_are_standardised_and_then_stacked():
    shape = (*SMALL[IMAGE][:2], 4)
    near(on(agent_named("strq"), IMAGE), spec_of(shape, frames=2), 20, tolerance=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("network", [IMAGE, VECTOR], ids=["image", "vector"])
@pytest.mark.parametrize(("name", "box"), WITH_BOXES)
def test_every_agent_and_switch_on_small_networks(name, box, network):
    # Layers of five units are ill-conditioned: the last digits of their gradients are neither engine's to be sure of,
    # and the direction of what these histories leave of one is made of them, where it is next to nothing.
    unsure = ("cosine_before_orth2",) if name.endswith(("projected", "raw_current")) else ()
    near(on(agent_named(name), network), spec_of(SMALL[network], box=box), 60, tolerance=1e-3, unsure=unsure)


@pytest.mark.long
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", VARIANTS)
def test_the_nine_variants_on_every_suite(name, suite):
    parity(on(agent_named(name), BySuite()), spec_of(SUITES[suite]), 300)


@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_a_thousand_steps_on_its_own_stay_near_the_reference(name):
    """Or no further than the reference engine from itself, when it rounds otherwise: that way it met an edge."""
    agent, spec = on(agent_named(name), BySuite()), spec_of(SUITES["vector"])
    fast = run_free(agent, spec, 1000)[-1].fast
    if max(fast.array, fast.module) > FREE_TOLERANCE:
        itself = run_free(agent, spec, 1000, shaken=6)[-1].itself
        assert fast.array <= max(FREE_TOLERANCE, *(errors.array for errors in itself)), fast
        assert fast.module <= max(FREE_TOLERANCE, *(errors.module for errors in itself)), fast


# input that is numerically bad --------------------------------------------------------------------------------------


SHAPE = SUITES["vector"]
WITH_SPR = ["dqn+spr", "strq+spr+orth2", "qrc+spr+orth"]  # each rule, with filters and without


def fed(name, answers, first):
    agent, spec = on(agent_named(name), BySuite()), spec_of(SHAPE)
    reference, fast = engines(agent, spec)
    reference.begin(first)
    fast.begin(first)
    for t, answer in enumerate(answers):
        yield t, reference, fast, answer


def answer(obs, reward, terminated=False):
    flags = (np.bool_(terminated), np.bool_(False), np.bool_(terminated))
    return TimeStep(obs, obs, np.float32(reward), *flags)


@pytest.mark.parametrize("value", [0.0, 3.5, 1e-40, 1e12])
@pytest.mark.parametrize("name", ["strq", "qrc"])
def test_an_observation_that_never_changes(name, value):
    """It standardises to zero: every layer's input has zero norm, every value is equal, the best action is shared."""
    obs = np.full(SHAPE, value, np.float32)
    for t, reference, fast, step in fed(name, [answer(obs, 1.0, t % 5 == 4) for t in range(12)], obs):
        fast.restore(reference.save())
        reference.learn(step)
        fast.learn(step)
        compare(fast.save(), reference.save(), 5e-5, f"step {t}")


@pytest.mark.parametrize("value", [0.0, 3.5, 1e12])
@pytest.mark.parametrize("name", WITH_SPR)
def test_spr_on_an_observation_that_never_changes(name, value):
    """Before the biases move, every latent that is guessed and every one that is guessed at has zero norm."""
    obs = np.full(SHAPE, value, np.float32)
    answers = [answer(obs, 1.0, t % 9 == 8) for t in range(24)]  # SPR's window fills up and is emptied again
    found = compare_answers(on(agent_named(name), BySuite()), spec_of(SHAPE), obs, answers)
    assert found.worst > 0, "something is learnt, and rounded"


@pytest.mark.parametrize("name", WITH_SPR)
def test_spr_on_denormal_rewards_and_observations(name):
    random = np.random.default_rng(0)
    tiny = [(random.random(SHAPE) * 1e-39).astype(np.float32) for _ in range(24)]
    answers = [answer(obs, 1e-40, t % 9 == 8) for t, obs in enumerate(tiny)]
    compare_answers(on(agent_named(name), BySuite()), spec_of(SHAPE), tiny[0], answers)


@pytest.mark.parametrize("name", ["strq", "qrc"])
def test_denormal_rewards_and_observations_count_as_zero(name):
    random = np.random.default_rng(0)
    tiny = [(random.random(SHAPE) * 1e-39).astype(np.float32) for _ in range(12)]
    for t, reference, fast, step in fed(name, [answer(obs, 1e-40) for obs in tiny], tiny[0]):
        fast.restore(reference.save())
        reference.learn(step)
        fast.learn(step)
        got, wanted = fast.save(), reference.save()
        for key in (k for k in wanted if k.startswith("stream/agent/params/")):
            np.testing.assert_allclose(got[key], wanted[key], rtol=1e-4, atol=1e-6, err_msg=f"{key} at {t}")


@pytest.mark.parametrize("name", ["strq", "qrc", *WITH_SPR])
def test_a_divergence_is_noticed_at_the_same_step_in_the_same_quantity(name):
    from headrace.engines.jax.stream import trouble_in

    first, answers = experience(SHAPE, 12)
    for t, reference, fast, step in fed(name, answers, first):
        if t == 6:
            huge = {key: a * 1e30 if "/params/head/" in key else a for key, a in reference.save().items()}
            reference.restore(huge)
            fast.restore(huge)
        reference.learn(step)
        fast.learn(step)
        assert fast.trouble() == trouble_in(reference.state.tally)
