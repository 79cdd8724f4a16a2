from __future__ import annotations

import functools
from math import ceil, prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import Conv, Mlp, Relu, agent_named, tweak
from headrace.definition.networks import (
    Layout,
    activate,
    convolve,
    dense_in,
    encode,
    imagine,
    init_params,
    layer_norm,
    layout_of,
    q_of,
    q_values,
    sparse,
    unroll,
)
from tests.definition import oracle
from tests.definition.support import (
    IMAGE,
    N_ACTIONS,
    SHAPES,
    VECTOR,
    compiled,
    dense_params,
    flat,
    small,
    small_layout,
)

RANDOM = np.random.default_rng(0)


def drawn(seed, shape):
    """A layer's weights from random numbers of a seed."""
    key_values, key_order = jax.random.split(jax.random.key(seed))
    return np.asarray(sparse(*(jax.random.uniform(k, (prod(shape),)) for k in (key_values, key_order)), shape))


def random_params(agent, layout):
    return dense_params(jax.eval_shape(lambda key: init_params(agent, layout, key), jax.random.key(0)))


def normal(*shape):
    return jnp.asarray(RANDOM.normal(size=shape), jnp.float32)


# sparse initialisation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3, 4, 16), (4, 8, 4, 32), (1024, 128), (128, 3), (10, 4), (19, 7), (3136, 512)])
def test_each_output_unit_has_exactly_nine_tenths_of_its_inputs_zero_rounded_up(shape):
    w = drawn(0, shape).reshape(-1, shape[-1])
    assert np.all((w == 0).sum(0) == ceil(0.9 * prod(shape[:-1])))


@pytest.mark.parametrize("fan_in", [1, 2, 4, 9])
def test_a_unit_of_few_inputs_keeps_one_of_them_at_random(fan_in):
    w = drawn(0, (fan_in, 200))
    assert np.all((w != 0).sum(0) == 1)
    assert np.all((w != 0).any(axis=1))  # every input reaches some unit


def test_equal_random_numbers_do_not_add_zeros():
    """Half a million float32 numbers hold equal ones: a threshold would take both of a pair that straddles it."""
    order = jnp.repeat(jnp.array([0.25, 0.75]), 10)
    w = sparse(jnp.linspace(0.01, 0.99, 20), order, (20, 1))
    assert int((w == 0).sum()) == 18


def test_weights_are_uniform_within_one_over_the_root_of_the_fan_in():
    w = drawn(1, (400, 1000))
    kept = w[w != 0]
    assert np.abs(kept).max() <= 0.05
    assert kept.std() == pytest.approx(0.05 / np.sqrt(3), rel=0.02)
    assert np.histogram(kept, 4, (-0.05, 0.05))[0] == pytest.approx(np.full(4, 10_000), rel=0.05)


def test_which_inputs_are_zero_is_drawn_for_each_unit_and_favours_none():
    kept = drawn(2, (20, 5000)) != 0
    assert np.all(kept.sum(0) == 2)
    assert kept.mean(1) == pytest.approx(np.full(20, 0.1), abs=0.02)


@pytest.mark.parametrize("network", [Conv((4,), ((3, 3),), ((1, 1),), 12), Mlp((12,), 12)])
def test_all_modules_are_sparse_with_zero_biases_and_different_numbers(network):
    agent = tweak(agent_named("qrc+spr"), f"network={network!r}")
    layout = layout_of(agent, (5, 5, 2) if isinstance(network, Conv) else (11,), N_ACTIONS)
    initial = compiled(lambda key: init_params(agent, layout, key))
    params, again, other = (initial(jax.random.key(s)) for s in (0, 0, 1))
    for layers in params.values():
        for layer in layers:
            fan_in = prod(layer["w"].shape[:-1])
            assert np.all((np.asarray(layer["w"]) == 0).reshape(fan_in, -1).sum(0) == ceil(0.9 * fan_in))
            assert not np.any(layer.get("b", 0))
    assert "b" not in params["head"][0]
    assert np.array_equal(flat(params), flat(again))
    for unlike in (params["h_encoder"], other["encoder"]):
        assert not np.array_equal(flat(params["encoder"]), flat(unlike))


# layers ---------------------------------------------------------------------------------------------------------------


def test_layer_norm_by_hand():
    """1, 3, 5, 7 have mean 4 and variance 5."""
    x = jnp.array([[[1.0], [3.0]], [[5.0], [7.0]]])
    wanted = np.array([-3, -1, 1, 3]) / np.sqrt(5 + 1e-5)
    assert np.asarray(layer_norm(x)).ravel() == pytest.approx(wanted, rel=1e-6)


def test_layer_norm_is_over_rows_columns_and_channels_together():
    y = np.asarray(layer_norm(normal(4, 5, 3) * jnp.array([1.0, 10.0, 100.0]) + jnp.array([0.0, 50.0, -7.0])))
    assert (y.mean(), y.std()) == pytest.approx((0, 1), abs=1e-4)
    assert np.ptp(y.mean((0, 1))) > 0.5


def test_a_constant_sample_normalises_to_zero():
    assert not np.any(layer_norm(jnp.full((3, 3, 2), 7.0)))


def test_the_activation_leaks_a_hundredth():
    low, high = np.asarray(activate(jnp.array([-1.0, 1.0])))
    assert (low, high) == pytest.approx((-0.01, 1.0), rel=1e-4)


@pytest.mark.parametrize(
    ("image", "kernel", "stride"),
    [
        ((84, 84, 4), (8, 8), (4, 4)),
        ((32, 64, 4), (4, 8), (2, 4)),
        ((10, 10, 7), (3, 3), (1, 1)),
        ((7, 9, 2), (2, 3), (3, 2)),
    ],
)
def test_convolution_is_laxs_valid_convolution(image, kernel, stride):
    x, w, b = normal(*image), normal(*kernel, image[-1], 5), normal(5)
    wanted = (
        jax.lax.conv_general_dilated(x[None], w, stride, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))[0] + b
    )
    found = compiled(convolve, static_argnums=2)({"w": w, "b": b}, x, stride)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_convolution_by_hand():
    x = jnp.arange(9.0).reshape(3, 3, 1)
    w = jnp.array([1.0, 10.0, 100.0, 1000.0]).reshape(2, 2, 1, 1)
    found = np.asarray(convolve({"w": w, "b": jnp.array([0.5])}, x, (1, 1)))[..., 0]
    assert found.tolist() == [
        [0 + 10 + 300 + 4000 + 0.5, 1 + 20 + 400 + 5000.5],
        [3 + 40 + 600 + 7000.5, 4 + 50 + 700 + 8000.5],
    ]


# whole networks against NumPy -----------------------------------------------------------------------------------------

DEEP = Conv((3, 4), ((3, 2), (2, 2)), ((2, 1), (1, 2)), 5)


@pytest.mark.parametrize(
    ("network", "shape"), [(IMAGE, (3, 4, 2)), (DEEP, (9, 8, 3)), (VECTOR, (3,)), (Mlp((6, 5), 4), (3,))]
)
def test_q_values_are_those_of_an_independent_implementation(network, shape):
    agent = tweak(agent_named("dqn"), f"network={network!r}")
    layout = layout_of(agent, shape, N_ACTIONS)
    params = random_params(agent, layout)
    obs = np.random.default_rng(3).normal(size=shape)
    wanted = oracle.q_values(oracle.as_float64(params), obs, getattr(network, "strides", None))
    found = compiled(q_values)(layout, params, jnp.asarray(obs, jnp.float32))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def test_outputs_that_stand_for_no_action_are_never_the_best():
    agent = small(agent_named("dqn"))
    wide = small_layout(agent)
    params = random_params(agent, wide)
    obs = normal(3)
    narrow = q_values(Layout(wide.network, wide.observation_shape, N_ACTIONS, 2), params, obs)
    assert np.array_equal(narrow[:2], q_values(wide, params, obs)[:2])
    assert narrow[2] == -np.inf


@pytest.mark.parametrize("network", [IMAGE, VECTOR])
def test_dynamics_are_those_of_an_independent_implementation(network):
    agent = small(agent_named("dqn+spr"), network)
    layout = small_layout(agent)
    params = random_params(agent, layout)
    obs = np.random.default_rng(4).normal(size=SHAPES[network])
    by_hand = oracle.as_float64(params)
    z = oracle.latent(by_hand["encoder"], obs, getattr(network, "strides", None))
    step = compiled(functools.partial(imagine, network))
    for action in range(N_ACTIONS):
        found = step(params["dynamics"], jnp.asarray(z, jnp.float32), jax.nn.one_hot(action, N_ACTIONS))
        wanted = oracle.next_latent(by_hand["dynamics"], z, action, N_ACTIONS)
        assert found.shape == z.shape
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


# a head without LayerNorm ---------------------------------------------------------------------------------------------


def rectified(params, obs):
    """Q(s, .) behind a ReLU alone, by the independent implementation of all else."""
    z = oracle.latent(params["encoder"], obs)
    return np.maximum(oracle.linear(params["projection"][0], z), 0) @ params["head"][0]["w"]


def test_a_relu_head_gives_these_values_and_the_gradient_of_finite_differences():
    agent = tweak(agent_named("dqn"), "network=Mlp((4, 3), 5, Relu)")
    layout = layout_of(agent, SHAPES[VECTOR], N_ACTIONS)
    params = random_params(agent, layout)
    obs = np.random.default_rng(3).normal(size=SHAPES[VECTOR])
    by_hand = oracle.as_float64(params)
    value, gradient = compiled(jax.value_and_grad(lambda p, x: q_values(layout, p, x)[1]))(params, jnp.float32(obs))
    assert value == pytest.approx(rectified(by_hand, obs)[1], rel=1e-5)
    found = oracle.as_float64(gradient)
    for name in ("encoder", "projection", "head"):
        for layer, made in zip(by_hand[name], found[name], strict=True):
            for key, array in layer.items():
                np.testing.assert_allclose(made[key], slopes(array, lambda: rectified(by_hand, obs)[1]), atol=1e-5)
    assert np.any(found["projection"][0]["b"] == 0)  # a unit that is off


def slopes(array, value, step=1e-6):
    """By central differences, number by number."""
    found = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        before = array[i]
        array[i] = before + step
        above = value()
        array[i] = before - step
        found[i] = (above - value()) / (2 * step)
        array[i] = before
    return found


def test_by_hand_a_relu_head_passes_what_is_above_zero_and_nothing_at_zero():
    layout = Layout(Mlp(), (2,), 1, 1, head=Relu())
    head = {"w": jnp.array([[1.0], [10.0], [100.0]])}
    projected = jnp.array([-3.0, 0.0, 2.0])
    assert q_of(layout, head, projected).tolist() == [200]
    assert jax.grad(lambda x: q_of(layout, head, x)[0])(projected).tolist() == [0, 0, 100]


def test_the_dynamics_and_the_encoder_keep_their_layer_norm():
    """The head is behind the projection and nowhere else."""
    agent = small(agent_named("dqn+spr"))
    layouts = [layout_of(tweak(agent, f"network.head={head}"), (3,), N_ACTIONS) for head in ("LeakyNorm", "Relu")]
    params, obs = random_params(agent, layouts[0]), normal(3)
    found = [encode(layout.network, params["encoder"], obs) for layout in layouts]
    assert np.array_equal(*found)
    assert not np.array_equal(*(q_values(layout, params, obs) for layout in layouts))


def test_a_dense_layer_is_linear_as_spr_sees_the_projection():
    layer = {"w": jnp.array([[1.0, -1.0], [2.0, 0.0]]), "b": jnp.array([0.5, -3.0])}
    assert dense_in(Mlp(), layer, jnp.array([[3.0, 4.0]])).tolist() == [[11.5, -6.0]]


def test_unrolling_imagines_one_latent_after_the_other():
    network = Mlp((2,), 2)
    layers = [{"w": jnp.array([[1.0, 0.5], [0.0, 2.0], [3.0, -1.0]]), "b": jnp.zeros(2)} for _ in range(1)]
    layers.append({"w": jnp.array([[1.0, -1.0], [0.5, 2.0]]), "b": jnp.array([0.1, 0.0])})
    z, actions = jnp.array([0.3, -0.7]), jnp.array([[1.0], [0.0]])
    once = imagine(network, layers, z, actions[0])
    twice = imagine(network, layers, once, actions[1])
    assert unroll(network, layers, z, actions).tolist() == [once.tolist(), twice.tolist()]
