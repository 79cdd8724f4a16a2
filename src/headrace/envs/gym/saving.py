"""Saving a Gymnasium environment that was not made to be saved: its attributes, where they are plain values.

Gymnasium has no way to save an environment. One whose attributes are numbers, strings, arrays, random generators and
containers of these is all there when they are, with the generators from which its spaces sample; a MuJoCo simulation
can be asked for its state. Anything else (another simulator's handle, an object of some class, two names for one array)
cannot be told from outside, and then the environment counts as one that cannot be saved. What cannot be seen at all is
state outside of the environment: NumPy's global generator, a module's or a class's variables. An environment with
methods `save()` (returning JSON values) and `restore(saved)` is saved by these.

MuJoCo's integration state is all that its next step is made of, to the bit. Beside it stand numbers that it derives
within a step and that Gymnasium's rewards read before the next one: where bodies were, and how fast.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.lib.array_utils import byte_bounds

from headrace.envs.packing import pack, unpack

_FIXED = (gymnasium.Space, EnvSpec, ModuleType, type)  # the same in every copy of an environment
_INNER = "env"  # a wrapper's attribute that holds what it wraps
DERIVED = (
    "xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com",
    "cinert", "cvel", "cfrc_ext", "cfrc_int", "cacc", "qacc", "qfrc_actuator", "qfrc_constraint", "actuator_force",
    "sensordata",
)  # fmt: skip


class CannotSave(Exception):
    """The environment holds something that cannot be saved."""


def layers(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The wrappers from the outermost to the innermost, then the environment itself."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def save_layers(env: gymnasium.Env) -> list[Any]:
    held = list(layers(env))
    if not _saves_itself(held[-1]):
        _refuse_shared([vars(layer) for layer in held])
    return [_save(layer) for layer in held]


def restore_layers(env: gymnasium.Env, saved: list[Any]) -> None:
    for layer, packed in zip(layers(env), saved, strict=True):
        if _saves_itself(layer):
            layer.restore(packed)  # type: ignore[attr-defined]
        else:
            _restore(layer, unpack(packed))


def _saves_itself(layer: Any) -> bool:
    return not isinstance(layer, gymnasium.Wrapper) and hasattr(layer, "save") and hasattr(layer, "restore")


def _save(layer: gymnasium.Env) -> Any:
    if _saves_itself(layer):
        return layer.save()  # type: ignore[attr-defined]
    if hasattr(layer, "__slots__") and layer.__slots__:
        raise CannotSave(f"{type(layer).__name__} has slots")
    simulated = handles(layer)
    plain = {name: value for name, value in vars(layer).items() if not _fixed(name, value) and name not in simulated}
    sampling = {name: space._np_random for name, space in _spaces(layer)}  # None where nothing was sampled yet
    try:
        return pack([plain, sampling, *([save_simulation(layer)] if simulated else [])])
    except TypeError as error:
        raise CannotSave(str(error)) from error


def _restore(layer: gymnasium.Env, saved: list[dict[str, Any]]) -> None:
    values, sampling, *simulation = saved
    kept = handles(layer)
    for state in simulation:
        restore_simulation(layer, state)
    for name, space in _spaces(layer):
        space._np_random = sampling[name]
    attributes = vars(layer)
    for name in [
        name for name, value in attributes.items() if not _fixed(name, value) and name not in (*values, *kept)
    ]:
        del attributes[name]
    attributes.update(values)


def _spaces(layer: gymnasium.Env) -> Iterator[tuple[str, gymnasium.Space]]:
    """Every space of a layer, also those that its class has and those that are parts of others, by a name."""
    held = {name: value for name, value in vars(layer).items() if isinstance(value, gymnasium.Space)}
    if not isinstance(layer, gymnasium.Wrapper):  # whose spaces, where it has none of its own, are the inner ones
        held |= {"observation_space": layer.observation_space, "action_space": layer.action_space}
    for name, space in held.items():
        yield from _parts(name, space)


def _parts(name: str, space: gymnasium.Space) -> Iterator[tuple[str, gymnasium.Space]]:
    yield name, space
    inner = getattr(space, "spaces", ())
    for key, part in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
        yield from _parts(f"{name}/{key}", part)


def _fixed(name: str, value: Any) -> bool:
    plain_function = isinstance(value, FunctionType) and value.__closure__ is None
    return name == _INNER or isinstance(value, _FIXED) or plain_function


def _refuse_shared(values: Any) -> None:
    """Two names for one array, list or generator would come back as two of them."""
    found = list(_mutable(values))
    arrays = [value for value in found if isinstance(value, np.ndarray) and value.size]
    places = sorted(map(byte_bounds, arrays))
    if len({id(value) for value in found}) < len(found) or any(
        start < end for (_, end), (start, _) in pairwise(places)
    ):
        raise CannotSave("the environment has two names for one thing that changes")


def _mutable(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray | np.random.Generator | np.random.RandomState | list | dict):
        yield value
    if isinstance(value, dict):
        value = [item for name, item in value.items() if not _fixed(str(name), item)]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _mutable(item)


def handles(layer: Any) -> dict[str, Any]:
    """The attributes of an environment that are handles of a simulation; none where MuJoCo has not been imported."""
    if (mujoco := sys.modules.get("mujoco")) is None:
        return {}
    kinds = mujoco.MjModel, mujoco.MjData
    held = {name: value for name, value in vars(layer).items() if isinstance(value, kinds)}
    drawing = {name: value for name, value in vars(layer).items() if type(value).__name__ == "MujocoRenderer"}
    return held | drawing if {type(value) for value in held.values()} == set(kinds) and len(held) == 2 else {}


def save_simulation(layer: Any) -> dict[str, Any]:
    """Of an environment with handles: its model's digest and what its next step is made of."""
    mujoco, model, data = _simulation(layer)
    state = np.zeros(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return {"model": _digest(mujoco, model), "state": state, **{name: getattr(data, name).copy() for name in DERIVED}}


def restore_simulation(layer: Any, saved: dict[str, Any]) -> None:
    mujoco, model, data = _simulation(layer)
    if saved["model"] != _digest(mujoco, model):
        raise ValueError("its simulation is of another model than the saved one: was that changed while it ran?")
    mujoco.mj_setState(model, data, saved["state"], mujoco.mjtState.mjSTATE_INTEGRATION)
    for name in DERIVED:
        getattr(data, name)[...] = saved[name]


def _simulation(layer: Any) -> tuple[Any, Any, Any]:
    mujoco, held = sys.modules["mujoco"], handles(layer).values()
    (model,) = (value for value in held if isinstance(value, mujoco.MjModel))
    (data,) = (value for value in held if isinstance(value, mujoco.MjData))
    return mujoco, model, data


def _digest(mujoco: Any, model: Any) -> str:
    content = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    return sha256(content.tobytes()).hexdigest()[:16]
