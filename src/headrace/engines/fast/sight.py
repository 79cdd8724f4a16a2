"""How far Q and the latent depend on what is seen: at a log point Q is evaluated at observations of its interval."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.frame import Entry, Frame
from headrace.engines.fast.machine import carry_out
from headrace.engines.fast.memory import Program
from headrace.engines.fast.networks import ValuePass
from headrace.engines.fast.td import Td

STATES = 8  # observations that are kept
EVERY = 125  # steps from one to the next
NAMES = ("sight", "latent_spread", "dead_units")


class SightPlan:
    """Room for the observations, and for an evaluation of its own: a step finds everything as it left it."""

    def __init__(self, frame: Frame, td: Td) -> None:
        size = self._size = frame.observation_size
        self._acted_upon, self._step = frame.obs, frame.step
        self._seen, self._obs = frame.memory.room(STATES * size), frame.memory.room(size)
        frame.entries.append(Entry("stream/seen", self._seen, (STATES, *frame.observation_shape)))
        value = self._value = ValuePass(frame.encoder, frame.sizes, frame.memory, self._obs)
        program = Program()
        value.encode(program, td.weights)
        td.layer.through(program, value)
        value.finish(program, td.weights)
        self._rows = program.rows()

    def keep(self, f: np.ndarray, n: np.ndarray) -> None:
        """Before a step: keeps the observation that is acted upon there, if it is one to keep."""
        if n[self._step] % EVERY:
            return
        size = self._size
        at = self._seen + int(n[self._step]) // EVERY % STATES * size
        f[at : at + size] = f[self._acted_upon : self._acted_upon + size]

    def measured(self, f: np.ndarray, s: np.ndarray, n: np.ndarray) -> dict[str, float]:
        """NaN where the observations do not differ."""
        size, count = self._size, min(-(-int(n[self._step]) // EVERY), STATES)
        seen = f[self._seen : self._seen + count * size].reshape(count, size)
        if not np.any(seen != seen[:1]):
            return dict.fromkeys(NAMES, float("nan"))
        found = [self._evaluated(obs, f, s, n) for obs in seen]
        return measures(*(np.stack(values).astype(np.float64) for values in zip(*found, strict=True)))

    def _evaluated(self, obs: np.ndarray, f: np.ndarray, s: np.ndarray, n: np.ndarray) -> list[np.ndarray]:
        """Q(s, .), the latent, and the units between projection and head."""
        value = self._value
        f[self._obs : self._obs + obs.size] = obs
        carry_out(self._rows, f, s, n, np.zeros(0, np.int64))
        results = ((value.q, value.n_actions), (value.x, value.latent), (value.y, value.hidden))
        return [f[at : at + size].copy() for at, size in results]


def measures(q: np.ndarray, z: np.ndarray, hidden: np.ndarray) -> dict[str, float]:
    """Of Q (states, actions), latents and hidden units (states, units).

    sight: how far Q differs between states, as a share of how far it differs between actions.
    latent_spread: the share of the latents' mean square that is variance between states.
    dead_units: the share of all units that are on the flat side of their activation at every state.
    """
    over_states, over_actions = np.sqrt(q.var(axis=0).mean()), q.std(axis=1).mean()
    highest = np.concatenate([z.max(axis=0), hidden.max(axis=0)])
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "sight": float(over_states / over_actions) if over_states != 0 else 0.0,
            "latent_spread": float(z.var(axis=0).sum() / np.square(z).sum(axis=1).mean()),
            "dead_units": float(np.mean(highest <= 0)),
        }
