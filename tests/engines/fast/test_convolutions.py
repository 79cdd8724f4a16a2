"""Convolutions against their definition in double precision, pixel by pixel, for sizes that fill tiles and such that do
not."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.engines.fast.convolution import Convolution, Geometry
from headrace.engines.fast.kernels import convolutions
from tests.engines.fast.bench import Bench, close

GEOMETRIES = [
    Geometry((7, 8, 3), (3, 2), (2, 1), 5),
    Geometry((10, 10, 4), (3, 3), (1, 1), 16),
    Geometry((9, 9, 16), (4, 4), (2, 2), 32),
    Geometry((6, 5, 8), (3, 3), (1, 1), 20),
    Geometry((5, 5, 6), (3, 3), (1, 1), 37, joined=3),
    Geometry((4, 4, 2), (4, 4), (4, 4), 1),
    Geometry((7, 11, 4), (3, 3), (1, 4), 16),  # sixteen apart within a row, nearer from one row to the next
]
LONG_SUM = 2e-5  # what rounding leaves of a sum of hundreds of numbers of about one


def windows_of(images, g):
    """Every window of some images as a row, in the order of the weights, joined channels left out."""
    (height, width), (down, across) = g.kernel, g.stride
    rows, columns, _ = g.result
    return np.stack([
        image[r * down : r * down + height, c * across : c * across + width].reshape(-1)
        for image in images for r in range(rows) for c in range(columns)
    ])  # fmt: skip


def joined_left_out(w, g):
    """The weights of those channels that the image has, as rows."""
    return w[:, :, : g.image[2]].reshape(-1, g.outputs)


def bench_for(g, images=1):
    """A convolution on a workbench: its image, weights, slopes, and room for what it makes."""
    bench = Bench()
    layer = Convolution(g, bench.memory, images)
    made = {
        "x": bench.array("x", images, *g.image), "w": bench.array("w", *g.kernel, g.image[2] + g.joined, g.outputs),
        "d": bench.array("d", images * g.places, g.outputs),
    }  # fmt: skip
    bench.array("y", g.places, g.outputs)
    bench.array("g", *g.kernel, g.image[2] + g.joined, g.outputs)
    return bench, layer, made


@pytest.mark.parametrize("g", GEOMETRIES)
def test_forwards(g):
    bench, layer, made = bench_for(g)
    layer.forward(bench.program, bench.at["w"], bench.at["x"], bench.at["y"])
    bench.run()
    close(bench["y"], windows_of(made["x"], g) @ joined_left_out(made["w"], g), LONG_SUM)


@pytest.mark.parametrize("g", GEOMETRIES)
def test_back_to_the_image(g):
    """<dx, x> = <d, windows(x) w> for every x: the way back is the transpose of the way forwards."""
    bench, layer, made = bench_for(g)
    turned, dx = layer.room_to_turn(bench.memory), layer.room_for_slopes(bench.memory)
    layer.turn(bench.program, bench.at["w"], turned)
    layer.backward(bench.program, turned, bench.at["d"], dx)
    bench.run()
    w, pixels = joined_left_out(made["w"], g), np.eye(g.image_size).reshape(-1, *g.image)
    wanted = [(made["d"] * (windows_of(pixel[None], g) @ w)).sum() for pixel in pixels]
    close(bench.f[dx : dx + g.image_size], wanted, LONG_SUM)
    assert not bench.f[dx + g.image_size : dx + g.image_size + 16].any()


@pytest.mark.parametrize("g", GEOMETRIES)
@pytest.mark.parametrize("images", [1, 3])
def test_the_gradient_of_the_weights(g, images):
    bench, layer, made = bench_for(g, images)
    layer.gradient(bench.program, bench.at["x"], bench.at["d"], bench.at["g"])
    bench.run()
    close(joined_left_out(bench["g"], g), windows_of(made["x"], g).T @ made["d"], LONG_SUM)
    np.testing.assert_array_equal(bench["g"][:, :, g.image[2] :], bench.first["g"][:, :, g.image[2] :])


def test_more_places_than_are_gone_through_at_once():
    g = Geometry((20, 15, 2), (2, 2), (1, 1), 16)
    assert g.places > 2 * convolutions.STRETCH
    test_the_gradient_of_the_weights(g, 1)


@pytest.mark.parametrize("left", range(1, 200))
def test_tiles_are_of_heights_that_there_are(left):
    heights = []
    while left:
        heights.append(convolutions.tile_height.py_func(left))
        left -= heights[-1]
    assert left == 0
    assert set(heights) <= {1, 5, 6}
    if sum(heights) >= 20:
        assert min(heights) >= 5


@pytest.mark.parametrize(("height", "width"), [(3, 4), (2, 2), (1, 3), (1, 1)])
def test_a_frame_reflects_and_is_folded_back(height, width):
    """<unframe(d), x> = <d, frame(x)>, and what there was is added to."""
    bench = Bench()
    x, d = bench.array("x", height, width, 5), bench.array("d", height + 2, width + 2, 5)
    before = bench.array("dx", height, width, 5)
    bench.array("framed", height + 2, width + 2, 5)
    sizes = {"height": height, "width": width, "channels": 5}
    bench.program.emit(convolutions.frame_image, x=bench.at["x"], out=bench.at["framed"], **sizes)
    bench.program.emit(convolutions.unframe_image, d=bench.at["d"], out=bench.at["dx"], **sizes)
    bench.run()
    modes = ["edge" if size == 1 else "reflect" for size in (height, width)]
    wanted = np.pad(np.pad(x, ((1, 1), (0, 0), (0, 0)), mode=modes[0]), ((0, 0), (1, 1), (0, 0)), mode=modes[1])
    np.testing.assert_array_equal(bench["framed"], wanted)
    assert ((bench["dx"] - before) * x).sum() == pytest.approx((d * wanted).sum(), rel=1e-4)


def test_an_action_joined_to_every_pixel_is_a_choice_of_bias():
    """As if the latent had channels for the actions, one of them one everywhere, and the windows had them too."""
    bench, places, channels, actions, outputs, steps = Bench(), 7, 2, 3, 5, 4
    w, b = bench.array("w", 9, channels + actions, outputs), bench.array("b", outputs)
    d, chosen = bench.array("d", steps, places, outputs), [2, 0, 2, 1]
    bench.array("bias", outputs)
    bench.array("g", 9, channels + actions, outputs)
    action = bench.memory.whole(*chosen)
    sizes = {"taps": 9, "channels": channels, "actions": actions, "outputs": outputs}
    at = bench.at
    bench.program.emit(convolutions.action_bias, w=at["w"], b=at["b"], out=at["bias"], action=action, **sizes)
    bench.program.emit(
        convolutions.action_gradient, d=at["d"], g=at["g"], action=action, steps=steps, places=places, **sizes
    )
    bench.run()
    ones = np.eye(actions)[chosen]
    close(bench["bias"], b + (w[:, channels:] * ones[0][:, None]).sum((0, 1)))
    close(bench["g"][:, channels:], np.broadcast_to(np.einsum("ka,kpo->ao", ones, d), (9, actions, outputs)))
    np.testing.assert_array_equal(bench["g"][:, :channels], bench.first["g"][:, :channels])
