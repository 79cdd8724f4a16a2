"""What the compiler left in a loop, read from its text."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from headrace.bench.kernels import Loop, compiled_loop, count_kernels

TEXT = """HloModule jit_f

%fused (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %a = f32[4]{0} add(%p, %p)
}

%inner_body (t: (s32[], f32[4])) -> (s32[], f32[4]) {
  %t = (s32[], f32[4]{0}) parameter(0)
  ROOT %tuple.9 = (s32[], f32[4]{0}) tuple(%t)
}

%region_0.1 (arg: (s32[], f32[4])) -> (s32[], f32[4]) {
  %arg = (s32[], f32[4]{0}) parameter(0)
  %x = f32[4]{0} get-tuple-element(%arg), index=1
  %fusion.1 = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused
  %fusion.2 = (f32[4]{0}, f32[4]{0}) fusion(%fusion.1), kind=kLoop, calls=%fused
  %copy.1 = f32[4]{0} copy(%x)
  %gemm = (f32[4]{0}, s8[4]{0}) custom-call(%x, %x), custom_call_target="__cublas$gemm"
  ROOT %tuple.1 = (s32[], f32[4]{0}) tuple(%i, %copy.1)
}

ENTRY %main (a: f32[4]) -> f32[4] {
  %w = (s32[], f32[4]) while(%init), condition=%cond, body=%region_0.1, backend_config={"known_trip_count":{"n":"500"}}
  %v = (s32[], f32[4]{0}) while(%init), condition=%cond, body=%inner_body
}
"""


def test_operations_of_the_largest_loop_are_counted_by_kind() -> None:
    assert compiled_loop(TEXT) == Loop({"fusion": 2, "copy": 1, "custom-call": 1}, 500)


def test_a_program_without_a_loop_has_none() -> None:
    text = "HloModule m\n\nENTRY %main (a: f32[4]) -> f32[4] {\n  %b = f32[4] copy(%a)\n}\n"
    assert compiled_loop(text) == Loop({}, None)


def test_it_reads_what_this_version_of_jax_prints() -> None:
    def loop(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 10, lambda i, x: jnp.tanh(x @ w), x)

    found = compiled_loop(jax.jit(loop).lower(jnp.ones((8, 8)), jnp.ones((8, 8))).compile().as_text())
    assert sum(found.operations.values()) >= 2  # a product and a tanh
    assert found.passes == 10


def test_on_a_cpu_kernels_are_not_counted() -> None:
    assert jax.default_backend() == "cpu"
    assert count_kernels(None, 10, Loop({}, None)) == (None, None, "not counted on a CPU")


class Seen:
    """A fleet on a device whose profiler has seen these events."""

    def __init__(self, monkeypatch, events) -> None:
        monkeypatch.setattr("jax.default_backend", lambda: "gpu")
        monkeypatch.setattr("headrace.bench.kernels._device_events", lambda folder: iter(events))

    def run(self, steps: int) -> Seen:
        return self

    def episodes(self) -> list[None]:
        return []


def test_a_profiler_that_sees_every_kernel_is_believed(monkeypatch) -> None:
    fleet = Seen(monkeypatch, ["fusion_1"] * 30 + ["MemcpyD2D"] * 10)
    assert count_kernels(fleet, 10, Loop({"fusion": 7}, 10)) == (3.0, 1.0, "by the profiler")


def test_a_loop_that_runs_as_one_graph_is_counted_in_the_program(monkeypatch) -> None:
    """The profiler sees the graph's start alone; the compiler has made two steps one pass."""
    found = count_kernels(Seen(monkeypatch, ["loop"]), 1000, Loop({"fusion": 246, "custom-call": 36, "copy": 2}, 500))
    assert found == (141.0, 1.0, "in the compiled loop, which the device runs as one graph")
