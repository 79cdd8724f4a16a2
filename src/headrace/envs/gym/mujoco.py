"""The state of a MuJoCo simulation, which an environment holds as a handle into MuJoCo's own memory.

MuJoCo's integration state is all that its next step is made of, to the bit. Beside it stand numbers that it derives
within a step and that Gymnasium's rewards read before the next one: where bodies were, and how fast.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from typing import Any

import numpy as np

DERIVED = (
    "xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com",
    "cinert", "cvel", "cfrc_ext", "cfrc_int", "cacc", "qacc", "qfrc_actuator", "qfrc_constraint", "actuator_force",
    "sensordata",
)  # fmt: skip


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
    mujoco, model, data = _parts(layer)
    state = np.zeros(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return {"model": _digest(mujoco, model), "state": state, **{name: getattr(data, name).copy() for name in DERIVED}}


def restore_simulation(layer: Any, saved: dict[str, Any]) -> None:
    mujoco, model, data = _parts(layer)
    if saved["model"] != _digest(mujoco, model):
        raise ValueError("its simulation is of another model than the saved one: was that changed while it ran?")
    mujoco.mj_setState(model, data, saved["state"], mujoco.mjtState.mjSTATE_INTEGRATION)
    for name in DERIVED:
        getattr(data, name)[...] = saved[name]


def _parts(layer: Any) -> tuple[Any, Any, Any]:
    mujoco, held = sys.modules["mujoco"], handles(layer).values()
    (model,) = (value for value in held if isinstance(value, mujoco.MjModel))
    (data,) = (value for value in held if isinstance(value, mujoco.MjData))
    return mujoco, model, data


def _digest(mujoco: Any, model: Any) -> str:
    content = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    return sha256(content.tobytes()).hexdigest()[:16]
