"""What an agent learns from at one step."""

from __future__ import annotations

from typing import Any, NamedTuple


class Transition(NamedTuple):
    """One step of experience, already normalised. `next_obs` is the true successor, also where the episode ended."""

    obs: Any
    action: Any
    reward: Any
    next_obs: Any
    terminated: Any  # the bootstrap stops here
    truncated: Any  # the bootstrap does not stop, the traces do
    last: Any  # the episode is over: windows are emptied
    greedy: Any  # the action was argmax Q(s), by choice or by chance
