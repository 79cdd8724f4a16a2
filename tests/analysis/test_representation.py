"""Measures of latents against hand numbers, and the NumPy encoder against the engine's."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import VARIANTS, tweak
from headrace.analysis.representation import (
    Silence,
    centred,
    effective_rank,
    linear_guess,
    principal_components,
    probes,
    silence,
    stretches,
    tsne,
)
from headrace.analysis.trajectory import played, stack, trajectory
from headrace.engines.jax.frozen import FrozenPolicy
from headrace.envs.base import EnvSpec
from headrace.envs.registry import environment
from headrace.errors import HeadraceError
from headrace.policy import Policy, layers_of


@pytest.mark.parametrize("n", [1, 2, 7])
def test_n_equal_axes_have_effective_rank_n(n):
    assert effective_rank(np.eye(10)[:, :n] * 3.0) == pytest.approx(n)


def test_effective_rank_by_hand():
    """Singular values 3 and 1: p = 3/4, 1/4, entropy 0.5623, rank 1.7548."""
    latents = np.zeros((5, 2))
    latents[0, 0], latents[1, 1] = 3.0, 1.0
    assert effective_rank(latents) == pytest.approx(np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25))))
    assert effective_rank(latents) == pytest.approx(1.7548, abs=1e-4)


def test_effective_rank_does_not_depend_on_scale_or_rotation(rng):
    latents = rng.normal(size=(50, 8))
    turned = latents @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
    assert effective_rank(7 * turned) == pytest.approx(effective_rank(latents))


def test_a_common_offset_hides_the_rest_unless_centred(rng):
    latents = rng.normal(size=(200, 8)) + 100.0
    assert effective_rank(latents) < 2.5
    assert effective_rank(centred(latents)) > 7.5


def test_every_feature_is_centred_by_itself():
    assert centred(np.array([[1.0, 10.0], [3.0, 50.0]])).tolist() == [[-1.0, -20.0], [1.0, 20.0]]


def test_no_latents_at_all_have_no_rank():
    assert np.isnan(effective_rank(np.zeros((4, 3))))


def test_dead_units_by_hand():
    """The second is never above zero; the third is, once."""
    activity = np.array([[1.0, -0.4, 0.9], [1.0, -0.6, -1.0]])
    assert silence(activity) == Silence(dead=pytest.approx(1 / 3), dormant=0.0)
    assert silence(np.ones((3, 4))) == Silence(0.0, 0.0)


def test_dormant_is_relative_to_the_layers_mean():
    """Means 1, 1, 0.01: the third is 0.015 of the mean 0.67."""
    assert silence(np.array([[1.0, 1.0, 0.01]])).dormant == pytest.approx(1 / 3)
    others = [1.0] * 99
    assert [silence(np.array([[*others, activity]])).dormant for activity in (0.024, 0.026)] == [0.01, 0.0]


def test_a_probe_reads_what_is_linear_and_not_what_is_absent(rng):
    z = rng.normal(size=(2000, 6))
    state = {"there": z[:, :1] * 3 + 1, "absent": rng.normal(size=(2000, 1)), "sign": (z[:, 1:2] > 0).astype(float)}
    state["constant"] = np.ones((2000, 1))
    found = probes(z, z, state)
    assert set(found) == {"there", "absent", "sign"}
    assert found["there"].latent > 0.999
    assert found["there"].kind == "r2"
    assert abs(found["absent"].latent) < 0.05
    assert found["sign"].kind == "accuracy"
    assert found["sign"].latent > 0.9
    assert 0.4 < found["sign"].chance < 0.6


def test_the_guess_never_sees_what_is_held_out(rng):
    x, y = rng.normal(size=(1000, 20)), rng.normal(size=(1000, 2))
    held = stretches(1000) == 4
    changed = np.where(held[:, None], 99.0, y)
    np.testing.assert_array_equal(linear_guess(x, y, held), linear_guess(x, changed, held))


def test_a_probe_of_more_features_than_steps_does_not_fail(rng):
    found = probes(rng.normal(size=(600, 700)), rng.normal(size=(600, 3)), {"noise": rng.normal(size=(600, 2))})
    assert abs(found["noise"].latent) < 0.3


def test_principal_components_keep_distances(rng):
    x = rng.normal(size=(40, 5))
    y = principal_components(x, 5)
    np.testing.assert_allclose(np.linalg.norm(x[3] - x[7]), np.linalg.norm(y[3] - y[7]), rtol=1e-5)


def test_tsne_tells_two_clusters_apart(rng):
    x = np.concatenate([rng.normal(0, 0.1, (60, 4)), rng.normal(5, 0.1, (60, 4))])
    y = tsne(x, 10)
    assert y.shape == (120, 2)
    between = np.linalg.norm(y[:60].mean(0) - y[60:].mean(0))
    assert between > 2 * y[:60].std()
    np.testing.assert_array_equal(y, tsne(x, 10))


def test_too_few_points_for_a_perplexity_are_said(rng):
    with pytest.raises(HeadraceError, match="more than 90 observations"):
        tsne(rng.normal(size=(80, 3)), 30)


SUITES = {"minatar": ((10, 10, 4), 1), "octax": ((32, 64, 4), 1), "atari": ((84, 84, 4), 4), "vector": ((6,), 1)}


@pytest.mark.parametrize("suite", SUITES)
def test_the_encoder_in_numpy_is_the_engines(suite, rng):
    shape, frames = SUITES[suite]
    agent = VARIANTS["qrc+spr"]
    arrays = saved(agent, shape, frames, rng)
    observations = rng.integers(0, 3, (4, *shape)).astype(np.float32)
    policy = FrozenPolicy(agent, EnvSpec("x", shape, ("a", "b", "c"), frames), arrays, eps=0.0, seed=0)
    ours = Policy(agent, arrays).latents(observations)
    np.testing.assert_allclose(ours, [policy.latent(o) for o in observations], atol=2e-5)


def saved(agent, shape, frames, rng):
    """Arrays as a checkpoint has them, of random numbers."""
    from headrace.agents import module_shapes
    from headrace.envs.base import one_frame

    arrays = {}
    for module, layers in module_shapes(agent, shape, 3).items():
        for i, layer in enumerate(layers):
            for kind, size in layer.items():
                name = f"stream/agent/params/{module}/{i}/{kind}"
                arrays[name] = rng.normal(0, 0.1, size).astype(np.float32)
    frame = one_frame(shape, frames)
    scale = {"mean": 0.5, "mean_rest": 0.0, "squares": 80.0, "squares_rest": 0.0}
    arrays |= {f"stream/obs_scale/{name}": np.full(frame, value, np.float32) for name, value in scale.items()}
    return {**arrays, "stream/obs_scale/count": np.int32(100)}


def test_an_encoder_that_does_not_fit_is_said(rng):
    agent = VARIANTS["qrc"]
    arrays = saved(agent, (10, 10, 4), 1, rng)
    deeper = tweak(agent, "network=Conv((4,4),((3,3),(3,3)),((1,1),(1,1)),16)")
    with pytest.raises(HeadraceError, match="1 encoder layers, its agent has 2"):
        Policy(deeper, arrays)
    with pytest.raises(HeadraceError, match="no observation scale"):
        Policy(agent, {k: v for k, v in arrays.items() if "obs_scale" not in k})
    assert layers_of("nothing", arrays) == []


def test_frames_are_stacked_within_episodes():
    frames = np.arange(6.0).reshape(6, 1)
    first = np.array([True, False, False, True, False, False])
    np.testing.assert_array_equal(
        stack(frames, first, 3), [[0, 0, 0], [0, 0, 1], [0, 1, 2], [3, 3, 3], [3, 3, 4], [3, 4, 5]]
    )
    np.testing.assert_array_equal(stack(frames, first, 1), frames)


def test_the_trajectory_is_fixed_and_random(programs):
    trajectory.cache_clear()
    game = environment("minatar/breakout")
    once = trajectory(game, 300)
    trajectory.cache_clear()
    again, other = trajectory(game, 300), trajectory(game, 300, seed=1)
    np.testing.assert_array_equal(once.observations, again.observations)
    assert (once.observations != other.observations).any()
    assert once.observations.shape == (300, 10, 10, 4)
    assert once.episode[0] == 0
    assert once.episode[-1] >= 5  # a random paddle loses soon
    assert {len(column) for column in once.state.values()} == {300}


def test_the_state_belongs_to_its_observation(programs):
    """Breakout: the paddle is in channel 0, the ball in channel 1."""
    seen = trajectory(environment("minatar/breakout"), 300)
    paddle = seen.observations[:, 9, :, 0].argmax(axis=1)
    np.testing.assert_array_equal(seen.state["paddle"][:, 0], paddle)
    assert trajectory(environment("minatar/seaquest"), 50).state["divers.x"].shape[0] == 50


def test_a_game_on_the_host_gives_a_trajectory_too():
    spec, frames, first, state = played(environment("gym/CartPole-v1"), 60, 0)
    assert frames.shape == (60, *spec.frame_shape)
    assert first[0]
    assert first.sum() > 1
    assert state == {}


@pytest.mark.parametrize("name", ["atari/pong", "octax/pong", "gym/CartPole-v1"])
def test_every_suite_has_its_trajectory(name, programs):
    seen = trajectory(environment(name), 40)
    assert seen.observations.shape == (40, *seen.spec.observation_shape)
    assert (seen.observations[0] != seen.observations[-1]).any()
