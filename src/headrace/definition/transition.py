"""What an agent learns from at one step."""

from __future__ import annotations

from typing import Any, NamedTuple


class Transition(NamedTuple):
    """One step of experience, already normalised. `next_obs` is the true successor, also where the episode ended."""

    obs: Any
    action: Any
    reward: Any
    next_obs: Any
    terminated: Any  # terminal: no bootstrap, traces reset
    truncated: Any  # cut off from outside: bootstrap kept, traces reset
    last: Any  # the whole episode is over (a lost life is not): windows are emptied
    greedy: Any  # the action was argmax Q(s), by choice or by chance; or drawn from the policy


class ActionDraws(NamedTuple):
    """The numbers that decide whether the agent explores, and how."""

    explore: Any  # uniform: explore where it is below epsilon
    action: Any  # uniform: which action, when exploring


class Draws(NamedTuple):
    """Everything random in one step, drawn beforehand so that two engines given the same draws must agree."""

    explore: Any  # uniform: explore where it is below epsilon
    action: Any  # uniform: which action, when exploring
    replay: Any  # uniform: which stored transition
    aux: Any  # uniform numbers, as many as the auxiliary needs
    rule: Any  # uniform numbers, as many as the rule needs
    policy: Any = ()  # two uniform numbers for each action, where the rule has a policy: for a draw, for a random one
    ahead: Any = ()  # `ActionDraws` of the next step, for a rule that looks ahead


class StepContext(NamedTuple):
    """What a rule or an auxiliary may know of a step beside its transition."""

    step: Any  # transitions learnt from before this one
    epsilon: Any  # probability of a random action at this step
    draws: Draws
