"""What can be said of latents: effective rank, units that are silent, what a linear reader finds in them, t-SNE."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.errors import HeadraceError, require_package

DORMANT = 0.025  # of a layer's mean activity, below which a unit counts as dormant (Sokar et al. 2023)
PENALTIES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)  # of ridge regression, in units of a feature's mean square
STRETCH = 100  # steps: of every five such stretches one is held out, and one chooses the penalty
COMPONENTS = 50  # of the latents that t-SNE sees


def effective_rank(latents: np.ndarray) -> float:
    """exp(-sum p ln p) of the singular values' shares p (Roy & Vetterli 2007): 1 for a line, n for n equal axes."""
    sigma = singular_values(latents)
    total = sigma.sum()
    if total <= 0 or not np.isfinite(total):
        return float("nan")
    p = sigma[sigma > 0] / total
    return float(np.exp(-(p * np.log(p)).sum()))


def singular_values(matrix: np.ndarray) -> np.ndarray:
    return np.linalg.svd(np.asarray(matrix, np.float64), compute_uv=False)


def centred(latents: np.ndarray) -> np.ndarray:
    return latents - latents.mean(axis=0)


class Silence(NamedTuple):
    """Shares of units that say nothing on the whole trajectory."""

    dead: float  # never above zero: always on the leak of the LeakyReLU
    dormant: float  # mean |activity| at most DORMANT of the layer's mean


def silence(activity: np.ndarray) -> Silence:
    """Of units in columns, observations in rows."""
    strength = np.abs(activity).mean(axis=0)
    return Silence(float((activity <= 0).all(axis=0).mean()), float((strength <= DORMANT * strength.mean()).mean()))


class Probe(NamedTuple):
    """How well a linear reader tells a variable of the game on stretches of the trajectory that it has not seen."""

    kind: str  # `r2`, or `accuracy` for a variable that is either 0 or 1
    latent: float
    observation: float  # the same reader given the observation itself
    chance: float  # always guessing the training mean, or the commoner value


def probes(latents: np.ndarray, observations: np.ndarray, state: dict[str, np.ndarray]) -> dict[str, Probe]:
    """A probe for each variable of the game that varies both in the part learnt from and in the part held out."""
    held = stretches(len(latents)) == 4
    if not held.any():
        return {}
    wanted = {name: values for name, values in state.items() if _varies(values[held]) and _varies(values[~held])}
    if not wanted:
        return {}
    targets = np.concatenate([_moving(values, held) for values in wanted.values()], axis=1)
    from_latent = linear_guess(latents, targets, held)
    from_observation = linear_guess(observations.reshape(len(observations), -1), targets, held)
    found, at = {}, 0
    for name, values in wanted.items():
        width = _moving(values, held).shape[1]
        here = slice(at, at + width)
        found[name] = _probe(targets[:, here], from_latent[:, here], from_observation[:, here], held)
        at += width
    return found


def stretches(length: int) -> np.ndarray:
    """0 to 4 for each step: which of five stretches it belongs to. The last, 4, is held out."""
    return np.arange(length) // STRETCH % 5


def _varies(values: np.ndarray) -> bool:
    return bool((values != values[0]).any())


def _moving(values: np.ndarray, held: np.ndarray) -> np.ndarray:
    """The columns of a variable that vary in both parts."""
    parts = (values[held], values[~held])
    return values[:, np.logical_and.reduce([(part != part[0]).any(axis=0) for part in parts])]


def linear_guess(features: np.ndarray, targets: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Ridge regression fitted on what is not held out; its guess for everything.

    Each target has the penalty that serves it best on stretches left out of a first fit.
    """
    x = np.asarray(features, np.float64)
    choosing = ~held & (stretches(len(x)) == 3)
    tried = _ridge(x, targets, ~held & ~choosing)
    errors = [((guess[choosing] - targets[choosing]) ** 2).sum(axis=0) for guess in tried]
    best = np.argmin(errors, axis=0)
    return np.take_along_axis(np.stack(_ridge(x, targets, ~held)), best[None, None, :], axis=0)[0]


def _ridge(x: np.ndarray, targets: np.ndarray, learnt: np.ndarray) -> list[np.ndarray]:
    """The guess for everything with each of the penalties, from one decomposition."""
    mean, middle = targets[learnt].mean(axis=0), x[learnt].mean(axis=0)
    part = x[learnt] - middle
    values, axes = np.linalg.eigh(part.T @ part)
    along, turned = axes.T @ (part.T @ (targets[learnt] - mean)), (x - middle) @ axes
    scale = max(values.mean(), 1e-12)
    return [turned @ (along / (np.maximum(values, 0) + penalty * scale)[:, None]) + mean for penalty in PENALTIES]


def _probe(truth: np.ndarray, latent: np.ndarray, observation: np.ndarray, held: np.ndarray) -> Probe:
    learnt, test = truth[~held], truth[held]
    if np.isin(truth, (0.0, 1.0)).all():
        chance = ((learnt.mean(axis=0) > 0.5) == test).mean()
        right, best = (float(((guess[held] > 0.5) == test).mean()) for guess in (latent, observation))
        return Probe("accuracy", right, best, float(chance))
    return Probe("r2", r2(test, latent[held]), r2(test, observation[held]), r2(test, learnt.mean(axis=0)))


def r2(truth: np.ndarray, guess: np.ndarray) -> float:
    """1 - squared error / variance, over all columns together."""
    return float(1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum())


def require_tsne() -> None:
    require_package("sklearn", "analysis", "t-SNE needs the scikit-learn")


def tsne(latents: np.ndarray, perplexity: float, seed: int = 0) -> np.ndarray:
    """Two coordinates for each latent, scikit-learn's t-SNE of the 50 largest principal components."""
    require_tsne()
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if len(latents) <= 3 * perplexity:
        raise HeadraceError(f"t-SNE with perplexity {perplexity:g} needs more than {3 * perplexity:g} observations")
    seen = principal_components(latents, COMPONENTS)
    with threadpool_limits(1):  # sums in one order: the same picture every time, and no waiting for busy cores
        points = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(seen)
    return np.asarray(points, np.float32)


def principal_components(latents: np.ndarray, count: int) -> np.ndarray:
    """The coordinates of the centred latents along their largest axes, with a fixed sign for each."""
    x = np.asarray(centred(latents), np.float64)
    values, axes = np.linalg.eigh(x.T @ x)
    largest = axes[:, np.argsort(values)[::-1][:count]]
    largest *= np.sign(largest[np.abs(largest).argmax(axis=0), np.arange(largest.shape[1])])
    return (x @ largest).astype(np.float32)
