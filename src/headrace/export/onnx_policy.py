"""A policy as an ONNX model: standardising, stacking, what the head gives, and the action inside."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from headrace.agents import Mlp, Relu
from headrace.errors import require_package
from headrace.export.policy import ACTION, PREFERENCE, Dense, Policy, Q, Saved, policy_of

PAGE = Path(__file__).parent / "onnx_files/README.md"
STACKED_PAGE = PAGE.with_name("README_stacked.md")
ACTIONS = "| output | `action` | int64 | batch: {names} |"
GIVEN = {  # rows of a table of outputs
    Q: (ACTIONS, "| output | `q` | float32 | batch x actions |"),
    PREFERENCE: (ACTIONS, "| output | `preference` | float32 | batch x actions |"),
    ACTION: ("| output | `action` | float32 | batch x {count}: from -1 to 1, to be scaled to the bounds of a box |",),
}
OPSET, IR = 17, 8  # old enough for the runtimes that devices have
LAYER_NORM_EPS, NEGATIVE_SLOPE = 1e-5, 0.01


def files(saved: Saved) -> dict[str, bytes]:
    """The exported folder: bytes by name."""
    require_package("onnx", "onnx", "writing ONNX needs the onnx")
    spec = saved.spec
    policy = policy_of(saved)
    model = model_of(policy, saved).SerializeToString()
    names = ", ".join(f"{i} {name}" for i, name in enumerate(spec.actions))
    words = {
        "title": saved.title, "run": saved.run.name, "bytes": len(model), "dtype": spec.dtype, "frames": spec.frames,
        "shape": " x ".join(map(str, spec.frame_shape)), "stack": " x ".join(map(str, spec.observation_shape)),
        "given": "\n".join(row.format(names=names, count=spec.n_actions) for row in GIVEN[policy.gives]),
    }  # fmt: skip
    page = STACKED_PAGE if spec.frames > 1 else PAGE
    return {"README.md": Template(page.read_text()).substitute(words).encode(), "policy.onnx": model}


class _Graph:
    """Nodes and constants, named as they come."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, op: str, *inputs: str | np.ndarray, out: str = "", **attributes: Any) -> str:
        """The name of what the operation makes of names and constants."""
        from onnx import helper

        name = out or f"{op.lower()}_{len(self.nodes)}"
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        self.nodes.append(helper.make_node(op, names, [name], **attributes))
        return name

    def _constant(self, array: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def model_of(policy: Policy, saved: Saved) -> Any:
    """The model, with a batch axis of any length before those of a frame."""
    from onnx import TensorProto, checker, helper

    spec, graph, real = saved.spec, _Graph(), TensorProto.FLOAT
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
    inputs = [helper.make_tensor_value_info("frame", kind, ["batch", *spec.frame_shape])]
    outputs = [helper.make_tensor_value_info(policy.gives, real, ["batch", spec.n_actions])]
    if not policy.box:
        outputs.insert(0, helper.make_tensor_value_info("action", TensorProto.INT64, ["batch"]))
    obs = _standardised(graph, policy)
    if spec.frames > 1:
        obs = _stacked(graph, obs, spec.frames, policy.mean)
        inputs.append(helper.make_tensor_value_info("stack", real, ["batch", *spec.observation_shape]))
        inputs.append(helper.make_tensor_value_info("first", TensorProto.BOOL, ["batch"]))
        outputs.append(helper.make_tensor_value_info("next_stack", real, ["batch", *spec.observation_shape]))
    if policy.box:
        graph("Clip", _given(graph, policy, obs, ""), np.array(-1, np.float32), np.array(1, np.float32), out=ACTION)
    else:
        graph("ArgMax", _given(graph, policy, obs, policy.gives), axis=1, keepdims=0, out=ACTION)
    made = helper.make_graph(graph.nodes, "policy", inputs, outputs, graph.constants)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="headrace",
        doc_string=saved.title,
    )  # fmt: skip
    helper.set_model_props(model, {"run": saved.run.name, "step": str(saved.step), "actions": ",".join(spec.actions)})
    checker.check_model(model)
    return model


def _standardised(graph: _Graph, policy: Policy) -> str:
    from onnx import TensorProto

    frame = graph("Cast", "frame", to=TensorProto.FLOAT)
    seen = graph("Div", graph("Sub", graph("Sub", frame, policy.mean), policy.rest), policy.deviation)
    if not policy.limit:
        return seen
    return graph("Clip", seen, np.array(-policy.limit, np.float32), np.array(policy.limit, np.float32))


def _stacked(graph: _Graph, seen: str, frames: int, frame: np.ndarray) -> str:
    """The stack without its oldest frame, and the new one; where an episode begins, the new one alone, repeated."""
    begun = graph("Concat", *[seen] * frames, axis=-1)
    ends = (np.array([end]) for end in (frame.shape[-1], np.iinfo(np.int64).max, -1))
    pushed = graph("Concat", graph("Slice", "stack", *ends), seen, axis=-1)
    first = graph("Reshape", "first", np.array([-1] + [1] * frame.ndim))
    return graph("Where", first, begun, pushed, out="next_stack")


def _given(graph: _Graph, policy: Policy, obs: str, name: str) -> str:
    """What the head gives, by that name. Images go through as channels, rows, columns: the projection's rows are sorted
    to fit."""
    if isinstance(policy.network, Mlp):
        x = obs
        for layer in policy.encoder:
            x = _activated(graph, graph("Gemm", x, *layer), [1])
        projection = policy.projection
    else:
        x = graph("Transpose", obs, perm=[0, 3, 1, 2])
        for layer, strides in zip(policy.encoder, policy.network.strides, strict=True):
            kernel = layer.w.transpose(3, 2, 0, 1)
            x = _activated(graph, graph("Conv", x, kernel, layer.b, strides=list(strides)), [1, 2, 3])
        x = graph("Flatten", x, axis=1)
        projection = _channels_first(policy.projection, policy.encoder[-1].b.size)
    hidden = graph("Gemm", x, *projection)
    top = graph("Relu", hidden) if isinstance(policy.network.head, Relu) else _activated(graph, hidden, [1])
    return graph("Gemm", top, *policy.head, out=name)


def _channels_first(projection: Dense, channels: int) -> Dense:
    inputs, units = projection.w.shape
    by_place = projection.w.reshape(inputs // channels, channels, units)
    return Dense(by_place.transpose(1, 0, 2).reshape(inputs, units), projection.b)


def _activated(graph: _Graph, x: str, axes: list[int]) -> str:
    """LayerNorm over the whole sample, then LeakyReLU."""
    centred = graph("Sub", x, graph("ReduceMean", x, axes=axes, keepdims=1))
    square = graph("ReduceMean", graph("Mul", centred, centred), axes=axes, keepdims=1)
    deviation = graph("Sqrt", graph("Add", square, np.array(LAYER_NORM_EPS, np.float32)))
    return graph("LeakyRelu", graph("Div", centred, deviation), alpha=NEGATIVE_SLOPE)
