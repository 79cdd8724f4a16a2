"""SPR and CURL against an implementation in NumPy, and their gradients against differences, in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import (
    AsIs,
    Clipped,
    Curl,
    MeanOverHorizon,
    Separate,
    ShiftAndIntensity,
    Spr,
    agent_named,
    tweak,
)
from headrace.definition.augment import View, views
from headrace.definition.objectives import (
    aux_loss,
    cosine_similarity,
)
from headrace.definition.step import init_agent
from headrace.definition.windows import Window
from tests.definition import oracle
from tests.definition.support import IMAGE, N_ACTIONS, SHAPES, VECTOR, compiled, dense_params, small_layout

loss_and_gradient = compiled(jax.value_and_grad(aux_loss, argnums=2), static_argnums=1)


class Case:
    """An objective with parameters, other parameters as its target, a window and draws, all random."""

    def __init__(self, objective, network, images):
        agent = tweak(agent_named("dqn+spr"), f"network={network!r}", f"aux.objective={objective!r}")
        self.objective, self.layout, self.network = objective, small_layout(agent), network
        params = jax.eval_shape(lambda key: init_agent(agent, self.layout, key), jax.random.key(0)).params
        self.modules = {n: dense_params(params, 1)[n] for n in objective.modules()}
        self.target = {n: dense_params(params, 2)[n] for n in objective.target_modules()}
        random = np.random.default_rng(5)
        self.observations = random.normal(size=(images, *SHAPES[network]))
        self.actions = random.integers(N_ACTIONS, size=images - 1)
        drawn = views(jnp.asarray(random.uniform(size=3 * objective.views()), jnp.float32))
        self.view = View(np.asarray(drawn.shift, np.float64), np.asarray(drawn.intensity, np.float64))

    def engine(self):
        """Loss and gradient in float64."""
        with jax.enable_x64(True):
            wide = jax.tree.map(jnp.float64, (self.modules, self.target, self.view))
            window = Window(jnp.float64(self.observations), jnp.int32(self.actions), jnp.bool_(True))
            loss, gradient = loss_and_gradient(self.objective, self.layout, wide[0], wide[1], window, wide[2])
            assert loss.dtype == jnp.float64
            return float(loss), oracle.vector(oracle.as_float64(gradient))

    def image(self, i, view):
        return seen(self.objective.augment, self.observations[i], self.view.shift[view], self.view.intensity[view])


def seen(augment, image, uniform, normal):
    if isinstance(augment, Clipped):
        return np.clip(seen(augment.inner, image, uniform, normal), 0, 1)
    if isinstance(augment, AsIs):
        return image
    if image.ndim == 1:
        return image * (1 + augment.intensity * np.clip(normal, -2, 2))
    return oracle.view(image, augment.shift, augment.intensity, uniform, normal)


def spr_by_hand(case, modules):
    objective = case.objective
    images = [case.image(i, i) for i in range(objective.horizon + 1)]
    name = "aux_projection" if isinstance(objective.projection, Separate) else "projection"
    strides = getattr(case.network, "strides", None)
    target = oracle.as_float64(case.target)
    losses = oracle.spr_loss(modules, target, images, case.actions, N_ACTIONS, name, strides)
    return losses.mean() if isinstance(objective.reduce, MeanOverHorizon) else losses.sum()


def curl_by_hand(case, modules):
    n, strides = case.objective.batch, getattr(case.network, "strides", None)
    queries, keys = [case.image(i, i) for i in range(n)], [case.image(i, n + i) for i in range(n)]
    return oracle.curl_loss(modules, oracle.as_float64(case.target), queries, keys, strides)


SPRS = [
    (Spr(1, augment=ShiftAndIntensity(1)), IMAGE),
    (Spr(3, augment=ShiftAndIntensity(4)), IMAGE),
    (Spr(3, augment=AsIs(), reduce=MeanOverHorizon()), IMAGE),
    (Spr(2, augment=Clipped(ShiftAndIntensity(1)), projection=Separate()), IMAGE),
    (Spr(3), VECTOR),
]


@pytest.mark.parametrize(("objective", "network"), SPRS, ids=str)
def test_the_spr_loss_and_its_gradient_are_those_of_numpy(objective, network):
    """The target has parameters of its own here, as under Polyak: the gradient must not flow into them."""
    case = Case(objective, network, objective.horizon + 1)
    modules = oracle.as_float64(case.modules)
    loss, gradient = case.engine()
    assert loss == pytest.approx(spr_by_hand(case, modules), rel=1e-6)
    wanted = oracle.gradient(lambda m: spr_by_hand(case, m), modules)
    assert np.linalg.norm(gradient - wanted) < 1e-6 * np.linalg.norm(wanted)


@pytest.mark.parametrize("network", [IMAGE, VECTOR])
def test_the_curl_loss_and_its_gradient_are_those_of_numpy(network):
    case = Case(Curl(batch=3, latent=4, augment=ShiftAndIntensity(1)), network, 3)
    modules = oracle.as_float64(case.modules)
    loss, gradient = case.engine()
    assert loss == pytest.approx(curl_by_hand(case, modules), rel=1e-6)
    wanted = oracle.gradient(lambda m: curl_by_hand(case, m), modules)
    assert np.linalg.norm(gradient - wanted) < 1e-6 * np.linalg.norm(wanted)


def test_the_sum_over_the_horizon_is_as_many_times_the_mean():
    total = Case(Spr(3), VECTOR, 4).engine()[0]
    mean = Case(Spr(3, reduce=MeanOverHorizon()), VECTOR, 4).engine()[0]
    assert total == pytest.approx(3 * mean)


def test_a_perfect_guess_costs_minus_one_for_each_step():
    """The cosine lies between -1 and 1, whatever the lengths."""
    a = jnp.array([[3.0, 4.0], [1.0, 0.0], [2.0, 0.0], [1.0, 1.0]])
    b = jnp.array([[30.0, 40.0], [0.0, 5.0], [-1.0, 0.0], [1.0, 0.0]])
    assert cosine_similarity(a, b).tolist() == pytest.approx([1, 0, -1, np.sqrt(0.5)], abs=1e-6)


def test_a_guess_or_a_truth_of_zero_length_gives_a_cosine_of_zero_and_a_finite_gradient():
    zero, other = jnp.zeros((1, 3)), jnp.array([[1.0, 2.0, 2.0]])
    for a, b in ((zero, other), (other, zero), (zero, zero)):
        assert float(cosine_similarity(a, b)[0]) == 0
        for slope in jax.grad(lambda a, b: cosine_similarity(a, b)[0], (0, 1))(a, b):
            assert np.all(np.isfinite(slope))


def test_modules_that_objectives_move():
    assert Spr().modules() == ("encoder", "projection", "dynamics", "predictor")
    assert Spr(projection=Separate()).modules() == ("encoder", "aux_projection", "dynamics", "predictor")
    assert Spr().target_modules() == ("encoder", "projection")
    assert Curl().target_modules() == ("encoder", "curl_projection")
