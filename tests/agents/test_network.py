from __future__ import annotations

import pytest

from headrace.agents import BySuite, Conv, LeakyNorm, Mlp, Relu, agent_named, fit, module_shapes, parameter_count, tweak
from headrace.agents.network import count
from headrace.errors import BadSetting

ATARI, OCTAX, MINATAR = (84, 84, 4), (32, 64, 4), (10, 10, 4)


@pytest.mark.parametrize(
    ("shape", "latent", "hidden"),
    [(ATARI, (7, 7, 64), 512), (OCTAX, (4, 4, 64), 512), (MINATAR, (8, 8, 16), 128), ((10, 10, 7), (8, 8, 16), 128)],
)
def test_the_latents_of_the_three_suites(shape, latent, hidden):
    network = fit(BySuite(), shape)
    assert network.latent_shape(shape) == latent
    assert network.hidden == hidden


@pytest.mark.parametrize(
    ("name", "modules", "total"),
    [
        ("dqn", ["encoder", "projection", "head"], 1_686_176),
        ("qrc+spr", ["encoder", "projection", "head", "predictor"], 1_948_832),
        ("dqn+spr", ["encoder", "projection", "head", "predictor", "dynamics"], 2_024_992),
        ("strq+spr+orth2", ["encoder", "projection", "head", "predictor", "dynamics"], 2_024_992),
        ("qrc", ["encoder", "projection", "head", "h_encoder", "h_projection", "h_head"], 3_372_352),
    ],
)
def test_parameter_counts_of_the_paper_on_atari_with_four_actions(name, modules, total):
    shapes = module_shapes(agent_named(name), ATARI, 4)
    assert count({module: shapes[module] for module in modules}) == total


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("dqn", 1_686_176),
        ("dqn+spr", 2_024_992),
        ("qrc", 3_372_352),
        ("qrc+spr", 3_711_168),
        ("qrc+spr+orth", 3_711_168),
    ],
)
def test_whole_agents_have_the_papers_parameter_counts(name, total):
    assert parameter_count(agent_named(name), ATARI, 4) == total


@pytest.mark.parametrize("name", ["dqn", "qrc+spr+orth"])
@pytest.mark.parametrize("shape", [ATARI, MINATAR, (4,)])
def test_another_head_has_the_same_parameters(name, shape):
    agent = agent_named(name)
    other = tweak(agent, "network.head=Relu")
    assert module_shapes(other, shape, 4) == module_shapes(agent, shape, 4)
    assert fit(other.network, shape).head == Relu()
    assert fit(agent.network, shape).head == LeakyNorm()


def test_a_third_kernel_of_two_does_not_give_the_papers_count():
    smaller = tweak(agent_named("dqn"), "network.third_kernel=2")
    # 8x8x64 latents: the third convolution loses 5*64*64 weights, the projection gains (64 - 49) * 64 * 512.
    assert parameter_count(smaller, ATARI, 4) == 1_686_176 - 5 * 64 * 64 + 15 * 64 * 512


def test_modules_of_minatar_layer_by_layer():
    assert module_shapes(agent_named("qrc+spr"), (10, 10, 4), 3) == {
        "encoder": [{"w": (3, 3, 4, 16), "b": (16,)}],
        "projection": [{"w": (1024, 128), "b": (128,)}],
        "head": [{"w": (128, 3)}],
        "dynamics": [{"w": (3, 3, 19, 16), "b": (16,)}, {"w": (3, 3, 16, 16), "b": (16,)}],
        "predictor": [{"w": (128, 128), "b": (128,)}],
        "h_encoder": [{"w": (3, 3, 4, 16), "b": (16,)}],
        "h_projection": [{"w": (1024, 128), "b": (128,)}],
        "h_head": [{"w": (128, 3)}],
    }


def test_octax_kernels_and_strides_are_oblong_in_the_first_layer():
    network = fit(BySuite(), OCTAX)
    assert (network.kernels, network.strides) == (((4, 8), (4, 4), (3, 3)), ((2, 4), (2, 2), (1, 1)))


def test_vector_observations_get_dense_layers():
    shapes = module_shapes(tweak(agent_named("dqn+spr"), "network=Mlp((7, 6), 5)"), (4,), 2)
    assert shapes["encoder"] == [{"w": (4, 7), "b": (7,)}, {"w": (7, 6), "b": (6,)}]
    assert shapes["projection"] == [{"w": (6, 5), "b": (5,)}]
    assert shapes["dynamics"] == [{"w": (8, 6), "b": (6,)}, {"w": (6, 6), "b": (6,)}]
    assert isinstance(fit(BySuite(), (4,)), Mlp)


def test_a_separate_projection_is_a_module_of_its_own():
    separate = module_shapes(agent_named("qrc+spr+separate"), MINATAR, 3)
    shared = module_shapes(agent_named("qrc+spr"), MINATAR, 3)
    assert separate.pop("aux_projection") == separate["projection"]
    assert separate == shared


def test_curl_has_a_dense_layer_on_the_latent_and_a_bilinear_form():
    shapes = module_shapes(agent_named("qrc+curl"), MINATAR, 3)
    assert shapes["curl_projection"] == [{"w": (1024, 128), "b": (128,)}]
    assert shapes["curl_bilinear"] == [{"w": (128, 128)}]


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (Conv(), (4,), r"needs an observation of 3 axes, got shape \(4,\)"),
        (Mlp(), (10, 10, 4), r"needs an observation of 1 axes, got shape \(10, 10, 4\)"),
        (BySuite(), (10, 10), r"needs an observation of 3 axes, got shape \(10, 10\)"),
        (Conv(kernels=((5, 5),)), (4, 9, 1), r"an image of 4 x 9 is too small for Conv"),
    ],
)
def test_a_network_that_does_not_fit_the_observation_is_refused(network, shape, message):
    with pytest.raises(BadSetting, match=message):
        fit(network, shape)
