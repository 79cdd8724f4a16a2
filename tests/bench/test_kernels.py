"""What the compiler left in a loop, read from its text."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from headrace.bench.fleet import Loop, compiled_loop

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


def test_one_pass_of_an_unrolled_loop_is_several_steps() -> None:
    """500 passes for 1,000 steps: the compiler has made two steps one pass."""
    assert Loop({"fusion": 246, "custom-call": 36, "copy": 2}, 500).per_step(1000) == (141.0, 1.0)
    assert Loop({"fusion": 7}, None).per_step(1000) == (7.0, 0.0)
