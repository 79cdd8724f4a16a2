"""Names of what a step reports, as every engine has them; `headrace.analysis.report.quantities` explains each."""

from __future__ import annotations

from collections.abc import Iterable

# In the order in which one becomes infinite through another.
BY_CAUSE = ("reward", "q", "h", "td_error", "q_gradient_norm", "td_update_norm", "h_update_norm", "aux_loss")
UNWATCHED = ("overshoot",)  # only describes a step, and may be infinite
SIGHT = ("sight", "latent_spread", "dead_units")  # at a log point, from the parameters of then


def watched(names: Iterable[str]) -> list[str]:
    """Those whose finiteness is watched, the likeliest cause first."""
    found = set(names).difference(UNWATCHED)
    return [*(name for name in BY_CAUSE if name in found), *sorted(found.difference(BY_CAUSE))]
