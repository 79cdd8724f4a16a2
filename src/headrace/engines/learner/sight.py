"""How far Q and the latent depend on what is seen, by the measures of `headrace.engines.jax.sight`."""

from __future__ import annotations

import numpy as np

from headrace.agents import ACTOR
from headrace.engines.learner.block import Block
from headrace.engines.metrics import SIGHT

EVERY = 125  # steps from one observation that is kept to the next


def sight(block: Block) -> dict[str, float]:
    """The measures of a stream with its present parameters; NaN where no two observations that are kept differ."""
    seen, steps = block.arrays["stream/seen"], int(block.arrays["stream/agent/step"])
    held = seen[: min(len(seen), -(-steps // EVERY))]
    if not len(held) or np.array_equal(held, np.broadcast_to(held[0], held.shape)):
        return dict.fromkeys(SIGHT, float("nan"))
    found = measures(*_evaluated(block, held))
    if f"stream/agent/params/{ACTOR}head/0/w" in block.arrays:  # V(s) is not spread over actions
        found["sight"] = float("nan")
    return found


def _evaluated(block: Block, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q(s, .), latents and hidden units of the observations."""
    latent, hidden = block.arrays["stream/agent/params/projection/0/w"].shape
    actions = block.arrays["stream/agent/params/head/0/w"].shape[1]
    found = [np.zeros((len(observations), size), np.float32) for size in (actions, latent, hidden)]
    for i, obs in enumerate(observations):
        block.evaluate(obs, *(array[i] for array in found))
    return found[0], found[1], found[2]


def measures(q: np.ndarray, z: np.ndarray, hidden: np.ndarray) -> dict[str, float]:
    """sight: how far Q differs between states, as a share of how far it differs between actions.
    latent_spread: the share of the latents' mean square that is variance between states.
    dead_units: the share of all units that are on the flat side of their activation at every state.
    """
    with np.errstate(all="ignore"):
        over_states, over_actions = np.sqrt(q.var(axis=0).mean()), q.std(axis=1).mean()
        spread = z.var(axis=0).sum() / (z**2).sum(axis=1).mean()
        dead = (np.concatenate([z, hidden], axis=1) <= 0).all(axis=0).mean()
        seeing = over_states / over_actions if over_states > 0 else 0.0
    return {"sight": float(seeing), "latent_spread": float(spread), "dead_units": float(dead)}
