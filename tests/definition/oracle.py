"""The networks and losses once more, in plain NumPy and float64, written from the specification: what is tested is
compared with this. Gradients are central differences, so that no derivative is shared either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, list[dict[str, np.ndarray]]]
STEP = 1e-5


def as_float64(modules: Any) -> Arrays:
    return {
        m: [{k: np.asarray(a, np.float64).copy() for k, a in layer.items()} for layer in ls]
        for m, ls in modules.items()
    }


def vector(modules: Arrays) -> np.ndarray:
    return np.concatenate([layer[k].ravel() for m in sorted(modules) for layer in modules[m] for k in sorted(layer)])


def shaped(values: np.ndarray, like: Arrays) -> Arrays:
    """The inverse of `vector`."""
    made: Arrays = {m: [{} for _ in like[m]] for m in like}
    at = 0
    for m in sorted(like):
        for i, layer in enumerate(like[m]):
            for k in sorted(layer):
                made[m][i][k] = values[at : at + layer[k].size].reshape(layer[k].shape)
                at += layer[k].size
    return made


def gradient(function: Callable[[Arrays], float], modules: Arrays) -> np.ndarray:
    """Central differences along every parameter, in the order of `vector`."""
    at, slopes = vector(modules), []
    for i in range(at.size):
        up, down = at.copy(), at.copy()
        up[i] += STEP
        down[i] -= STEP
        slopes.append((function(shaped(up, modules)) - function(shaped(down, modules))) / (2 * STEP))
    return np.array(slopes)


def norm_and_leak(x: np.ndarray) -> np.ndarray:
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return np.where(x > 0, x, 0.01 * x)


def convolution(image: np.ndarray, w: np.ndarray, b: np.ndarray, stride: tuple[int, int]) -> np.ndarray:
    kh, kw, _, outputs = w.shape
    rows, columns = (image.shape[0] - kh) // stride[0] + 1, (image.shape[1] - kw) // stride[1] + 1
    out = np.zeros((rows, columns, outputs))
    for r in range(rows):
        for c in range(columns):
            patch = image[r * stride[0] : r * stride[0] + kh, c * stride[1] : c * stride[1] + kw]
            out[r, c] = (patch[..., None] * w).sum((0, 1, 2)) + b
    return out


def mirrored(image: np.ndarray) -> np.ndarray:
    """One more row and column on every side, reflected without repeating the edge: row 1 goes before row 0."""
    rows = [1, *range(image.shape[0]), image.shape[0] - 2]
    columns = [1, *range(image.shape[1]), image.shape[1] - 2]
    return image[rows][:, columns]


def latent(layers: Any, obs: np.ndarray, strides: Any = None) -> np.ndarray:
    z = obs
    for i, layer in enumerate(layers):
        z = norm_and_leak(
            convolution(z, layer["w"], layer["b"], strides[i]) if obs.ndim == 3 else z @ layer["w"] + layer["b"]
        )
    return z


def next_latent(layers: Any, z: np.ndarray, action: int, n_actions: int) -> np.ndarray:
    one_hot = np.eye(n_actions)[action]
    z = np.concatenate([z, np.tile(one_hot, (*z.shape[:-1], 1))], -1) if z.ndim == 3 else np.concatenate([z, one_hot])
    for layer in layers:
        inner = convolution(mirrored(z), layer["w"], layer["b"], (1, 1)) if z.ndim == 3 else z @ layer["w"] + layer["b"]
        z = norm_and_leak(inner)
    return z


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer["w"] + layer["b"]


def q_values(modules: Arrays, obs: np.ndarray, strides: Any = None) -> np.ndarray:
    z = latent(modules["encoder"], obs, strides).ravel()
    return norm_and_leak(linear(modules["projection"][0], z)) @ modules["head"][0]["w"]


def view(image: np.ndarray, shift: int, strength: float, uniform: np.ndarray, normal: float) -> np.ndarray:
    """Edge padding, a crop at the drawn corner, then the drawn intensity."""
    h, w = image.shape[:2]
    padded = np.pad(image, ((shift, shift), (shift, shift), (0, 0)), mode="edge")
    top, left = (int(u * (2 * shift + 1)) for u in uniform)
    return padded[top : top + h, left : left + w] * (1 + strength * min(max(normal, -2.0), 2.0))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def spr_loss(modules: Arrays, target: Arrays, images: Any, actions: Any, n_actions: int, projection: str, strides: Any):
    z, losses = latent(modules["encoder"], images[0], strides), []
    for k, action in enumerate(actions, start=1):
        z = next_latent(modules["dynamics"], z, action, n_actions)
        guess = linear(modules["predictor"][0], linear(modules[projection][0], z.ravel()))
        truth = linear(target[projection][0], latent(target["encoder"], images[k], strides).ravel())
        losses.append(-cosine(guess, truth))
    return np.array(losses)


def curl_loss(modules: Arrays, target: Arrays, queries: Any, keys: Any, strides: Any) -> float:
    def embed(m: Arrays, images: Any) -> list[np.ndarray]:
        return [linear(m["curl_projection"][0], latent(m["encoder"], i, strides).ravel()) for i in images]

    q, k = embed(modules, queries), embed(target, keys)
    total = 0.0
    for i in range(len(q)):
        logits = np.array([q[i] @ modules["curl_bilinear"][0]["w"] @ key for key in k])
        total -= logits[i] - np.log(np.exp(logits).sum())
    return total / len(q)
