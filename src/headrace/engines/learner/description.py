"""An agent in words that the C learner knows: the struct `hr_config` of `learner.h`."""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import Structure, c_float, c_int32
from typing import Any

from headrace import agents
from headrace.agents import Agent, Conv, fit, require_actions
from headrace.envs.base import EnvSpec
from headrace.part import Part

MOST_LAYERS = 8

RULES = {agents.Dqn: 0, agents.StreamQ: 1, agents.Qrc: 2, agents.ActorCritic: 3}
STEP_SIZES = {agents.ObGd: 0, agents.Sgd: 1, agents.Adaptive: 2, agents.Intentional: 3}
TARGETS = {agents.Online: 0, agents.Copy: 1, agents.Polyak: 2}
HEADS = {agents.LeakyNorm: 0, agents.Relu: 1}
GATES = {agents.Always: 0, agents.Every: 1, agents.Greedy: 2}
HISTORIES = {agents.Raw: 1, agents.Projected: 2, agents.RawCurrent: 3}
AS_THEY_ARE, ORTH2, ORTH2_AVERAGE, PCGRAD = range(4)
JOINS = {agents.Sum: 0, agents.Mix: 1, agents.SharedFlipped: 2}

KNOWN = {
    *RULES, *STEP_SIZES, *TARGETS, *HEADS, *GATES, *HISTORIES, *JOINS,
    agents.Agent, agents.EpsilonGreedy, agents.BySuite, agents.Conv, agents.Mlp, agents.Latest, agents.Replay,
    agents.NoAuxiliary, agents.Auxiliary, agents.Spr, agents.Episode, agents.ReleasedRing, agents.Shared,
    agents.Separate, agents.SumOverHorizon, agents.MeanOverHorizon, agents.AsIs, agents.ShiftAndIntensity,
    agents.Clipped, agents.Unfiltered, agents.Orth, agents.AuxOrthogonalToTd, agents.Present, agents.Average,
    agents.PcGrad, agents.Clip, agents.Unguarded, agents.Bounded, agents.Apart, agents.Together, agents.Kept,
    agents.Fading, agents.Limited, agents.Unlimited, agents.OwnEncoder, agents.OneEncoder,
}  # fmt: skip


class Layer(Structure):
    _fields_ = [
        (name, c_int32) for name in ("kernel_height", "kernel_width", "stride_height", "stride_width", "channels")
    ]


class Target(Structure):
    _fields_ = [("kind", c_int32), ("every", c_int32), ("keep", c_float)]


class StepSize(Structure):
    _fields_ = [
        ("kind", c_int32),
        *((name, c_float) for name in ("epsilon", "limit", "square_loses", "clip", "error_loses")),
    ]


class Filter(Structure):
    _fields_ = [("history", c_int32), ("together", c_int32), ("fading", c_int32), ("beta", c_float)]


class AuxiliaryWords(Structure):
    _fields_ = [
        *((name, c_int32) for name in ("objective", "horizon", "mean", "separate", "ring", "augmented", "shift")),
        ("clipped", c_int32),
        *((name, c_float) for name in ("intensity", "clip_low", "clip_high", "weight", "lr", "guard")),
        ("gate", c_int32), ("gate_every", c_int32), ("target", Target), ("filter", Filter),
    ]  # fmt: skip


class Config(Structure):
    _fields_ = [
        *((name, c_int32) for name in ("height", "width", "channels", "frames", "actions")),
        *((name, c_int32) for name in ("box", "spatial", "layers", "hidden", "head")),
        ("layer", Layer * MOST_LAYERS), ("rule", c_int32), ("replay", c_int32),
        *((name, c_float) for name in ("lr", "gamma", "lamda", "kappa", "h_lr_scale", "regularizer", "guard")),
        ("step_size", StepSize), *((name, c_float) for name in ("actor_lr", "actor_kappa", "entropy")),
        ("one_encoder", c_int32), ("actor_step_size", StepSize), ("target", Target), ("td_filter", Filter),
        ("aux", AuxiliaryWords), ("merge", c_int32), ("join", c_int32),
        *((name, c_float) for name in ("mix", "average_beta", "bound", "explore_start", "explore_end")),
        ("explore_fraction", c_float), ("steps", c_float), ("limit", c_float),
    ]  # fmt: skip


def strange_parts(part: Part) -> list[str]:
    """The names of the kinds of parts in an agent that the learner does not know."""
    inner = [getattr(part, field.name) for field in dataclasses.fields(part)]
    found = {name for value in inner if isinstance(value, Part) for name in strange_parts(value)}
    return sorted(found if type(part) in KNOWN else found | {type(part).__name__})


def describe(agent: Agent, spec: EnvSpec, steps: int) -> Config:
    """The agent in an environment, for a run of so many steps."""
    require_actions(agent, spec.box)
    config = Config(actions=spec.n_actions, box=spec.box, frames=spec.frames, steps=steps)
    *sizes, config.channels = spec.frame_shape
    config.height, config.width = sizes or (1, 1)
    explore: Any = agent.explore
    limit = getattr(agent.observations, "limit", 0.0)
    config.explore_start, config.explore_end = explore.start, explore.end
    config.explore_fraction, config.limit = explore.fraction, limit
    _describe_network(config, fit(agent.network, spec.observation_shape))
    _describe_rule(config, agent.td)
    config.td_filter = _filter(agent.td_filter)
    if isinstance(agent.aux, agents.Auxiliary):
        config.aux = _auxiliary(agent.aux)
    _describe_merge(config, agent.merge)
    return config


def _describe_network(config: Config, network: Any) -> None:
    if isinstance(network, Conv):
        windows = zip(network.kernels, network.strides, network.channels, strict=True)
        layers = [Layer(*kernel, *stride, channels) for kernel, stride, channels in windows]
    else:
        layers = [Layer(1, 1, 1, 1, width) for width in network.widths]
    config.spatial, config.layers, config.hidden = isinstance(network, Conv), len(layers), network.hidden
    config.head = HEADS[type(network.head)]
    for i, layer in enumerate(layers[:MOST_LAYERS]):
        config.layer[i] = layer


def _describe_rule(config: Config, rule: Any) -> None:
    config.rule = RULES[type(rule)]
    for name in ("lr", "gamma", "lamda", "kappa", "h_lr_scale", "regularizer", "actor_lr", "actor_kappa", "entropy"):
        setattr(config, name, getattr(rule, name, 0.0))
    config.guard = _norm(getattr(rule, "guard", None))
    config.replay = getattr(getattr(rule, "memory", None), "size", 0)
    config.step_size = _step_size(getattr(rule, "step_size", agents.ObGd()))
    config.actor_step_size = _step_size(getattr(rule, "actor_step_size", agents.ObGd()))
    config.one_encoder = isinstance(getattr(rule, "encoder", None), agents.OneEncoder)
    config.target = _target(getattr(rule, "target", agents.Online()))


def _target(target: Any) -> Target:
    return Target(TARGETS[type(target)], getattr(target, "every", 0), getattr(target, "keep", 0.0))


def _step_size(part: Any) -> StepSize:
    words = StepSize(STEP_SIZES[type(part)])
    if isinstance(part, agents.Adaptive):
        words.epsilon, words.limit = part.epsilon, part.limit
    if isinstance(part, agents.Intentional):
        words.square_loses, words.clip, words.error_loses = 1 - part.beta, part.clip, 1 - part.error_beta
    return words


def _filter(part: Any) -> Filter:
    if isinstance(part, agents.Unfiltered):
        return Filter()
    together, fading = isinstance(part.modules, agents.Together), isinstance(part.rest, agents.Fading)
    return Filter(HISTORIES[type(part.history)], together, fading, part.beta)


def _norm(guard: Any) -> float:
    return guard.norm if isinstance(guard, agents.Clip) else 0.0


def _auxiliary(aux: agents.Auxiliary) -> AuxiliaryWords:
    spr = aux.objective
    assert isinstance(spr, agents.Spr)
    words = AuxiliaryWords(objective=1, horizon=spr.horizon, weight=aux.weight, lr=aux.lr, guard=_norm(aux.guard))
    words.mean = isinstance(spr.reduce, agents.MeanOverHorizon)
    words.separate = isinstance(spr.projection, agents.Separate)
    words.ring = isinstance(spr.window, agents.ReleasedRing)
    view: Any = spr.augment
    if isinstance(view, agents.Clipped):
        words.clipped, words.clip_low, words.clip_high, view = 1, view.low, view.high, view.inner
    if isinstance(view, agents.ShiftAndIntensity):
        words.augmented, words.shift, words.intensity = 1, view.shift, view.intensity
    words.gate, words.gate_every = GATES[type(aux.gate)], getattr(aux.gate, "n", 0)
    words.target, words.filter = _target(spr.target), _filter(aux.filter)
    return words


def _describe_merge(config: Config, merge: Any) -> None:
    if isinstance(merge, agents.Bounded):
        config.bound, merge = merge.norm, merge.inner
    if isinstance(merge, agents.PcGrad):
        config.merge, merge = PCGRAD, merge.combine
    if isinstance(merge, agents.AuxOrthogonalToTd):
        config.merge = ORTH2
        if isinstance(merge.against, agents.Average):
            config.merge, config.average_beta = ORTH2_AVERAGE, merge.against.beta
        merge = merge.combine
    config.join, config.mix = JOINS[type(merge)], getattr(merge, "mix", 0.0)


class Array(Structure):
    """One array of the saved state: `hr_array`."""

    _fields_ = [
        ("name", ctypes.c_char * 120), ("type", c_int32), ("dimensions", c_int32), ("shape", c_int32 * 4),
        ("offset", ctypes.c_uint64),
    ]  # fmt: skip


class Finished(Structure):
    """The episode that ended last: `hr_episode`."""

    _fields_ = [("step", c_int32), ("length", c_int32), ("episode_return", c_float)]
