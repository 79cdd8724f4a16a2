"""Formulas of matrices: what one pass makes of them, in which order, and what they are between two steps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.engines.reference.fused.passes import passed
from headrace.engines.reference.later import (
    Made,
    OuterSum,
    Pending,
    Wanted,
    Whole,
    chosen,
    inner_products,
    now,
    promised,
    settled,
)
from headrace.engines.reference.trees import dot, dots, norm1, norm2, without
from tests.engines.reference.formulas import assert_near, matrix

pytestmark = pytest.mark.usefixtures("interpreted")


def formulas() -> tuple[dict[str, Any], dict[str, jax.Array]]:
    """Some of each kind, and the arrays that they stand for."""
    w, z, x, d = matrix(0), matrix(1), matrix(2, 3, 64), matrix(3, 3, 16)
    whole, outer, keep = Whole(w, passed), OuterSum(x, d, passed), jnp.float32(0.7)
    g = jnp.einsum("ki,ko->io", x, d)
    cut = jnp.bool_(True)
    late = {
        "whole": whole, "outer": outer, "sum": whole + keep * outer, "difference": outer - 0.5 * z,
        "turned": z - outer, "cut": chosen(cut, 0.0, whole), "kept": chosen(~cut, 0.0, 2 * (whole + z)),
    }  # fmt: skip
    arrays = {
        "whole": w, "outer": g, "sum": w + keep * g, "difference": g - 0.5 * z, "turned": z - g,
        "cut": jnp.zeros_like(w), "kept": 2 * (w + z),
    }  # fmt: skip
    return late, arrays


def test_one_pass_makes_every_formula_and_the_norms_of_those_that_are_watched() -> None:
    late, arrays = formulas()
    watched = late["sum"] - late["difference"]
    assert_near(settled(late, watching=[watched])[0], arrays)
    assert_near({name: now(formula) for name, formula in late.items()}, arrays)
    assert_near(watched.square, jnp.sum((arrays["sum"] - arrays["difference"]) ** 2))
    assert inner_products([(watched, watched)])[0] is watched.square


def test_matrices_that_share_nothing_are_gone_through_apart() -> None:
    passes = []

    def counted(wanted: Wanted) -> Made:
        passes.append(len(wanted.outputs))
        return passed(wanted)

    one, two, three = (Whole(matrix(seed), counted) for seed in range(3))
    settled({"these": [one + two, 2 * two], "alone": three * 2.0, "number": jnp.float32(3)})
    assert sorted(passes) == [1, 2]


def test_inner_products_and_norms_are_those_of_the_arrays() -> None:
    late, arrays = formulas()
    names = [(a, b) for a in late for b in late]
    found = dots(*((late[a], late[b]) for a, b in names))
    assert_near(found, [jnp.sum(arrays[a] * arrays[b]) for a, b in names])
    assert_near(dot(late["sum"], arrays["whole"]), jnp.sum(arrays["sum"] * arrays["whole"]))
    assert_near(norm1([late["sum"], jnp.float32(-2)]), jnp.sum(jnp.abs(arrays["sum"])) + 2)
    assert_near(now(without(late["sum"], late["whole"])), without(arrays["sum"], arrays["whole"]))


def test_matrices_of_other_shapes_and_rows_in_common_are_kept_apart() -> None:
    x, d, e = matrix(0, 2, 64), matrix(1, 2, 16), matrix(2, 2, 16)
    one, two, low = OuterSum(x, d, passed), OuterSum(x, e, passed), Whole(matrix(3, 32), passed)
    assert_near(now(settled({"both": one + 2 * two})[0]["both"]), x.T @ d + 2 * (x.T @ e))
    tall = Whole(matrix(4), passed)
    assert_near(dots(([tall, low], [tall, low])), [jnp.sum(tall.array**2) + jnp.sum(low.array**2)])


def test_the_pass_that_the_next_choice_waits_for_comes_first_and_the_others_leave_room() -> None:
    passes = []

    def noted(wanted: Wanted) -> Made:
        passes.append((len(wanted.outputs), len(wanted.after), wanted.beside))
        return passed(wanted)

    one, two, three = (Whole(matrix(i), noted) for i in range(3))
    tree = {"a": one * 2.0, "b": [two * 3.0, two * 4.0], "c": three * 5.0}
    vectors = {"choice": (jnp.ones(64), tree["b"][1]), "later": (jnp.ones(64), tree["a"])}
    made, rows = settled(tree, vectors=vectors)
    assert passes == [(2, 0, False), (1, 1, True), (1, 1, True)]
    assert_near(rows, {"choice": jnp.ones(64) @ made["b"][1], "later": jnp.ones(64) @ made["a"]})


def test_what_is_promised_is_made_once_and_after_what_the_next_choice_begins_with() -> None:
    made = []

    def make(*after: jax.Array) -> Any:
        made.append(after)
        return {"w": matrix(5, 3, 4), "b": jnp.arange(4.0)}

    gradient, past = promised(make), {"w": matrix(6, 3, 4), "b": jnp.ones(4)}
    left = without(gradient, past)
    latent, weights = jnp.ones(64), Whole(matrix(0), passed) * 2.0
    tree, rows = settled((left, weights), watching=left, vectors={"choice": (latent, weights)}, leaving=left)
    assert_near(tree[0], without({"w": matrix(5, 3, 4), "b": jnp.arange(4.0)}, past))
    assert_near(dots((gradient, past)), [jnp.sum(matrix(5, 3, 4) * past["w"]) + 6])
    assert_near(rows["choice"], latent @ tree[1])
    assert len(made) == 2  # the first time for the shapes
    assert made[1][0] is latent


def test_who_needs_what_is_promised_has_it_at_once() -> None:
    gradient = promised(lambda *after: {"w": matrix(5, 3, 4), "b": jnp.arange(4.0)})
    assert_near(norm2(gradient), jnp.sqrt(jnp.sum(matrix(5, 3, 4) ** 2) + 14))


def test_rows_that_do_not_divide_into_tiles_are_refused() -> None:
    with pytest.raises(ValueError, match="goes through 8 rows at a time, and 12 rows do not"):
        passed(Wanted(outputs=[Whole(matrix(0, 12), passed)]))


def test_inner_products_wait_for_what_a_gradient_says() -> None:
    wanted = []

    def noted(w: Wanted) -> Made:
        wanted.append(w)
        return passed(w)

    first, second = jnp.ones(2), jnp.zeros(3)
    history = Whole(matrix(0), noted)
    gradients = [OuterSum(matrix(1, 2, 64), matrix(2, 2, 16), noted, after=after) for after in ([first], [second], ())]
    for gradient in gradients:
        found = dots((gradient, history), (history, history))
        assert_near(found, [jnp.sum(now(gradient) * history.array), jnp.sum(history.array**2)])
    assert [[id(x) for x in w.after] for w in wanted] == [[id(first)], [id(second)], []]
    assert [w.beside for w in wanted] == [True, True, False]


def test_a_formula_between_two_steps_has_each_of_its_arrays_once() -> None:
    w, x, d, keep = matrix(0), matrix(2, 3, 64), matrix(3, 3, 16), jnp.float32(0.7)
    whole, outer = Whole(w, passed), OuterSum(x, d, passed)
    kept = Pending.of(chosen(jnp.bool_(True), keep * whole + keep * outer, 0.5 * whole + outer))
    assert len(jax.tree.leaves(kept)) == 5  # the condition, keep, w, x, d
    again = jax.tree.map(lambda a: a + 0, kept).formula
    assert len({id(part) for part in again.parts() if isinstance(part, OuterSum)}) == 1
    assert_near(now(again), keep * (w + jnp.einsum("ki,ko->io", x, d)))


def between_steps(formula: Any) -> Any:
    return jax.tree.map(lambda a: a + 0, Pending.of(formula)).formula


def test_a_history_between_two_steps_remembers_its_inner_products() -> None:
    """Of a history that is a formula only what is new has to be made by going through a matrix."""
    made = []

    def noted(w: Wanted) -> Made:
        made.append(len(w.sums))
        return passed(w)

    keep, c = jnp.float32(0.7), matrix(0)
    old, new = (OuterSum(matrix(i, 2, 64), matrix(i + 1, 2, 16), noted) for i in (1, 3))
    history = Whole(c, noted)
    without([old], [history])
    past = keep * c + (1 - keep) * now(old)
    again = between_steps(keep * history + (1 - keep) * old)
    assert_near(dots((new, again), (again, again)), [jnp.sum(now(new) * past), jnp.sum(past * past)])
    assert_near(now(without([new], [again])[0]), now(new) - jnp.sum(now(new) * past) / jnp.sum(past * past) * past)
    assert made == [2, 1]


def test_inner_products_by_parts_are_those_of_the_arrays() -> None:
    """All ways in which a formula is a sum of multiples; two that are none, and one that is not of the step before."""
    made = []

    def noted(w: Wanted) -> Made:
        made.append(len(w.sums))
        return Made([], [jnp.sum(now(a) * now(b)) for a, b in w.sums], [])

    w, x, d, number = matrix(0), matrix(2, 3, 64), matrix(3, 3, 16), jnp.float32(3)
    other = OuterSum(matrix(4, 2, 64), matrix(5, 2, 16), noted)
    shapes = {
        "quotient": (lambda m, g: m - g / number, between_steps, 1),
        "product": (lambda m, g: number * (g - m) + 0.5 * m, between_steps, 1),
        "choice": (lambda m, g: chosen(number > 2, 2 * g + m, g) - chosen(number > 4, m, 0.0), between_steps, 1),
        "square": (lambda m, g: (m + g) * m, between_steps, 2),
        "offset": (lambda m, g: m + number, between_steps, 2),
        "present": (lambda m, g: m - g / number, lambda formula: formula, 2),
    }
    for name, (shape, when, sums) in shapes.items():
        whole, outer = Whole(w, noted), OuterSum(x, d, noted)
        dots((outer, whole), (whole, whole))
        formula, array = when(shape(whole, outer)), shape(w, now(outer))
        made.clear()
        found = dots((other, formula), (formula, formula))
        assert_near(found, [jnp.sum(now(other) * array), jnp.sum(array * array)])
        assert made == [sums], name


def test_what_was_not_chosen_has_no_share_in_an_inner_product() -> None:
    good, bad = (OuterSum(x, matrix(3, 2, 16), passed) for x in (matrix(1, 2, 64), jnp.full((2, 64), jnp.nan)))
    history = Whole(matrix(0), passed)
    dots((bad, history), (history, history))
    past = between_steps(chosen(jnp.bool_(False), 0.5 * history + 0.5 * bad, history))
    assert_near(dots((good, past), (past, past)), dots((good, history), (history, history)))


def test_the_square_of_a_small_difference_is_not_what_rounding_leaves() -> None:
    gradient = OuterSum(matrix(1, 3, 64), matrix(2, 3, 16), passed)
    history = Whole(0.1 * now(gradient) + 1e-4 * matrix(3), passed)
    left = without([gradient], [history])[0]
    square = dots((left, left))[0]
    np.testing.assert_allclose(square, jnp.sum(now(left) ** 2), rtol=1e-4)
