"""What the columns of metrics.csv are called on an axis, and their units."""

from __future__ import annotations

from typing import NamedTuple


class Quantity(NamedTuple):
    label: str
    unit: str
    about: str


QUANTITIES = {
    "return": Quantity("return", "raw reward", "mean undiscounted return of the last 100 episodes"),
    "reward": Quantity("reward of a step", "raw reward", "mean reward of a step"),
    "epsilon": Quantity("exploration ε", "probability", "probability of a random action"),
    "td_error": Quantity("TD error |δ|", "scaled reward", "mean absolute TD error"),
    "q": Quantity("Q(s, a)", "scaled reward", "value of the transition learnt from"),
    "q_gradient_norm": Quantity("‖∇Q(s, a)‖", "per parameter unit", "Euclidean norm of the gradient"),
    "td_update_norm": Quantity("RL update", "norm, parameters", "norm of the RL update before it is merged"),
    "overshoot": Quantity("overshoot", "ratio", "of a plain TD step, which overshoots above 2"),
    "guarded": Quantity("guard acted", "share of steps", "steps on which the guard shortened a gradient of the values"),
    "step_size": Quantity("step size", "ratio", "what the error and the direction are multiplied by"),
    "actor_step_size": Quantity("actor's step size", "ratio", "the same of the policy's update"),
    "actor_update_norm": Quantity("actor's update", "norm, parameters", "norm of the policy's update"),
    "log_pi": Quantity("log pi(a|s)", "nats", "how likely the action taken was; in a box the density's logarithm"),
    "entropy": Quantity("entropy", "nats", "of the policy"),
    "h": Quantity("h(s, a)", "scaled reward", "QRC's second network"),
    "h_update_norm": Quantity("update of h", "norm, parameters", "norm of the second network's update"),
    "aux_loss": Quantity("auxiliary loss", "1 or nats", "SPR: minus the sum of cosines; CURL: cross-entropy"),
    "aux_update_norm": Quantity("auxiliary update", "norm, parameters", "norm of the auxiliary update"),
    "aux_guarded": Quantity("guard acted, auxiliary", "share of steps", "of those on which the auxiliary learnt"),
    "cosine_before_orth": Quantity("cosine before orth", "-1 to 1", "RL and auxiliary update on the encoder"),
    "cosine_before_orth2": Quantity("cosine before orth2", "-1 to 1", "the same, after the auxiliary's filter"),
    "aux_active": Quantity("auxiliary active", "share of steps", "steps on which the auxiliary learnt"),
    "sight": Quantity("sight", "ratio", "how far Q differs between states, beside how far between actions"),
    "latent_spread": Quantity("latent spread", "0 to 1", "share of the latents' mean square that differs by state"),
    "dead_units": Quantity("dead units", "share of units", "units that are flat at all states looked at"),
    "steps_per_s": Quantity("speed", "steps/s", "over the last few seconds"),
}


def quantity(column: str) -> Quantity:
    """What a column is; one that is not known here is shown under its own name."""
    return QUANTITIES.get(column, Quantity(column, "as logged", "a column of metrics.csv"))
