"""Arrays that are not written down until one pass makes all that is wanted of them.

A fleet's large matrices (a projection's weights, traces and histories) are most of what a step reads and writes. As
arrays, a compiler chooses what to keep between two uses, and keeps too much. As `Later` they are formulas: leaves of a
tree like any other, of which `settled` makes arrays, and `dots` sums, going through each matrix once. A formula may
also stay one from a step to the next (`Pending`): reading its matrices once more costs less than writing what it is.

The rules of learning (`td.py`, `filters.py`, `merging.py`) do not know the difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Value = Any  # an array, a tile of one, or a number
Pair = tuple[Any, Any]
Form = Callable[[Sequence[Any]], Any]


class Wanted(NamedTuple):
    """What one pass is to make of formulas of one shape."""

    outputs: Sequence[Any] = ()  # arrays
    sums: Sequence[Pair] = ()  # the inner product of two formulas
    rows: Sequence[Pair] = ()  # a vector x and a formula w: x @ w
    after: Sequence[Any] = ()  # arrays that are not read, but have to be there before it begins
    beside: bool = False  # whether others are to find room beside it


class Made(NamedTuple):
    outputs: list[jax.Array]
    sums: list[jax.Array]
    rows: list[jax.Array]


Pass = Callable[[Wanted], Made]


class Later:
    """A matrix as a formula. `passed` makes of formulas what is wanted, in one pass."""

    def __init__(self, shape: tuple[int, ...], passed: Pass) -> None:
        self.shape, self.passed = shape, passed
        self.known: dict[int, tuple[Any, jax.Array]] = {}  # inner products that were made, with what and how much
        self.is_past = False  # whether it comes from the step before

    @property
    def square(self) -> jax.Array | None:
        """Its squared norm, once it was made."""
        return _remembered(self, self)

    def value(self, read: Callable[[Any], Value]) -> Value:
        """What the formula comes to, where `read` says what a matrix or a number is."""
        return read(self)

    def parts(self) -> Iterator[Any]:
        """The matrices and numbers that it is made of: itself, unless it is joined of others."""
        yield self

    def form(self, place: Callable[[Any], int]) -> Form:
        """How it is made of its parts, of which `place` says where they will be found."""
        return itemgetter(place(self))

    def __add__(self, other: Any) -> Later:
        return Joined(jnp.add, self, other)

    def __radd__(self, other: Any) -> Later:
        return Joined(jnp.add, other, self)

    def __sub__(self, other: Any) -> Later:
        return Joined(jnp.subtract, self, other)

    def __rsub__(self, other: Any) -> Later:
        return Joined(jnp.subtract, other, self)

    def __mul__(self, other: Any) -> Later:
        return Joined(jnp.multiply, self, other)

    def __rmul__(self, other: Any) -> Later:
        return Joined(jnp.multiply, other, self)

    def __truediv__(self, other: Any) -> Later:
        return Joined(jnp.divide, self, other)


class Whole(Later):
    """A matrix that exists."""

    def __init__(self, array: jax.Array, passed: Pass) -> None:
        super().__init__(array.shape, passed)
        self.array = array


class OuterSum(Later):
    """The sum of outer products of rows: what the gradient of a dense layer's weights is. A pass that makes its inner
    products, and those of others with it, is not begun before the first of `after` is there."""

    def __init__(self, x: jax.Array, d: jax.Array, passed: Pass, after: Sequence[jax.Array] = ()) -> None:
        super().__init__((x.shape[1], d.shape[1]), passed)
        self.x, self.d, self.after = x, d, after


class Promise:
    """Arrays that are computed once it is known what they have to wait for."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make
        self.arrays: list[jax.Array] = []

    def keep(self, *after: jax.Array) -> list[jax.Array]:
        self.arrays = self.arrays or jax.tree.leaves(self.make(*after))
        return self.arrays


class Promised(Later):
    """One array of a promise."""

    def __init__(self, shape: tuple[int, ...], promise: Promise, place: int) -> None:
        super().__init__(shape, _unpassed)
        self.promise, self.place = promise, place

    def value(self, read: Callable[[Any], Value]) -> Value:
        return self.promise.keep()[self.place]


def promised(make: Callable[..., Any]) -> Any:
    """The tree that `make` gives, as formulas. Its arrays are made once: by `settled`, which says what they wait
    for, or by whoever needs them before."""
    leaves, structure = jax.tree.flatten(jax.eval_shape(make))
    promise = Promise(make)
    return jax.tree.unflatten(structure, [Promised(x.shape, promise, i) for i, x in enumerate(leaves)])


def _promises(*formulas: Any) -> list[Promise]:
    parts = (part for x in formulas if isinstance(x, Later) for part in x.parts())
    return [part.promise for part in parts if isinstance(part, Promised)]


def _unpassed(wanted: Wanted) -> Made:
    raise TypeError("what is promised is not gone through in a pass")


class Joined(Later):
    """A sum, a difference, a multiple or a choice; also a number that is not known yet (an inner product)."""

    def __init__(self, join: Callable[..., Value], *terms: Any) -> None:
        like = next(x for x in terms if isinstance(x, Later))
        super().__init__(like.shape, like.passed)
        self.join, self.terms = join, tuple(_term(x, like) for x in terms)

    def value(self, read: Callable[[Any], Value]) -> Value:
        return self.join(*(x.value(read) if isinstance(x, Later) else read(x) for x in self.terms))

    def parts(self) -> Iterator[Any]:
        for x in self.terms:
            yield from x.parts() if isinstance(x, Later) else (x,)

    def form(self, place: Callable[[Any], int]) -> Form:
        join = self.join
        terms = [x.form(place) if isinstance(x, Later) else itemgetter(place(x)) for x in self.terms]
        return lambda parts: Joined(join, *(term(parts) for term in terms))


def _term(x: Any, like: Later) -> Any:
    return Whole(x, like.passed) if not isinstance(x, Later) and jnp.ndim(x) == 2 else x


@jax.tree_util.register_pytree_node_class
class Pending:
    """A formula between two steps: a tree whose leaves are the arrays that it is made of, each of them once, and the
    inner products of these, as far as they are known."""

    def __init__(self, arrays: Sequence[Any], products: Sequence[Any], makes: Any, pairs: Any, form: Form) -> None:
        self.arrays, self.products, self.makes, self.pairs, self.form = arrays, products, makes, pairs, form

    @staticmethod
    def of(formula: Later) -> Pending:
        parts: dict[int, Any] = {}

        def place(part: Any) -> int:
            key = id(matrix(part))
            parts.setdefault(key, part)
            return list(parts).index(key)

        form = formula.form(place)
        taken = [_taken_apart(part) for part in parts.values()]
        known = {
            (i, j): product
            for (i, a), (j, b) in combinations_with_replacement(enumerate(parts.values()), 2)
            if (product := _remembered(a, b)) is not None
        }
        return Pending(
            [arrays for arrays, _ in taken], list(known.values()), tuple(make for _, make in taken), tuple(known), form
        )

    @property
    def formula(self) -> Later:
        parts = [make(*arrays) for arrays, make in zip(self.arrays, self.makes, strict=True)]
        for (i, j), product in zip(self.pairs, self.products, strict=True):
            _remember(parts[i], parts[j], product)
        formula = self.form(parts)
        formula.is_past = True
        return formula

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.arrays, self.products), (self.makes, self.pairs, self.form)

    @classmethod
    def tree_unflatten(cls, form: Any, arrays: Any) -> Pending:
        return cls(*arrays, *form)


def _taken_apart(part: Any) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """The arrays of a part, and what makes a part of them."""
    if isinstance(part, Whole):
        return (part.array,), functools.partial(Whole, passed=part.passed)
    if isinstance(part, OuterSum):
        return (part.x, part.d), functools.partial(OuterSum, passed=part.passed)
    return ((part,), lambda x: x) if isinstance(part, jax.Array) else ((), lambda: part)


def chosen(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; later, if either is."""
    if isinstance(a, Later) or isinstance(b, Later):
        return Joined(_choice, jnp.asarray(condition, jnp.float32), a, b)
    return jnp.where(condition, a, b)


def _choice(condition: Value, a: Value, b: Value) -> Value:
    return jnp.where(condition > 0, a, b)


def now(x: Any) -> Any:
    """The array, made by itself."""
    return x.value(_in_memory) if isinstance(x, Later) else x


def _in_memory(part: Any) -> Value:
    if isinstance(part, Whole):
        return part.array
    if isinstance(part, OuterSum):
        return outer_sum(part.x, part.d)
    return part


def outer_sum(x: jax.Array, d: jax.Array) -> jax.Array:
    """The sum of the outer products of rows, in the order of the rows."""
    return functools.reduce(jnp.add, (x[k][:, None] * d[k][None, :] for k in range(x.shape[0])))


def settled(
    tree: Any, watching: Any = (), vectors: dict[str, Pair] | None = None, leaving: Any = ()
) -> tuple[Any, dict[str, jax.Array]]:
    """The tree as arrays, but for what is in `leaving`; and x @ w of each pair of a vector and a formula of the tree.

    The squared norm of each formula in `watching` is made in the same pass, and kept with it. The pass that makes the
    first of `vectors` is waited for: the others follow it, and leave room for what is made of its row. What is promised
    waits for that vector. What is in `leaving` becomes `Pending`, unless it is promised.
    """
    leaves, structure = jax.tree.flatten(tree)
    vectors = vectors or {}
    awaited = {id(x): x for x in leaves if _promises(x)}
    left = {id(x): Pending.of(x) for x in _formulas(leaving) if id(x) not in awaited}
    late = {id(x): x for x in _formulas(tree) if id(x) not in awaited | left}
    watched = {id(x): x for x in _formulas(watching) if x.square is None and not _promises(x)}
    for promise in _promises(*awaited.values()):
        promise.keep(*[x for x, _ in vectors.values()][:1])
    found, rows = _gone_through(late, watched, vectors)
    found |= left | {key: now(x) for key, x in awaited.items()}
    return jax.tree.unflatten(structure, [found.get(id(x), x) for x in leaves]), rows


def _formulas(tree: Any) -> list[Later]:
    return [x for x in jax.tree.leaves(tree) if isinstance(x, Later)]


def _gone_through(
    late: dict[int, Later], watched: dict[int, Later], vectors: dict[str, Pair]
) -> tuple[dict[int, Any], dict[str, jax.Array]]:
    """Pass by pass: the arrays by the formulas' ids, the products by the vectors' names, and the squares."""
    arrays: dict[int, Any] = {}
    products: dict[str, jax.Array] = {}
    first: list[jax.Array] = []
    for together in sorted(_connected([*late.values(), *watched.values()]), key=lambda g: _place(g, vectors)):
        outputs = [x for x in together if id(x) in late]
        squares = [x for x in together if id(x) in watched]
        through = {name: pair for name, pair in vectors.items() if any(pair[1] is x for x in outputs)}
        sums, rows = [(x, x) for x in squares], list(through.values())
        made = together[0].passed(Wanted(outputs, sums, rows, after=first, beside=bool(first)))
        first = first or made.rows[:1]
        arrays |= {id(x): array for x, array in zip(outputs, made.outputs, strict=True)}
        products |= dict(zip(through, made.rows, strict=True))
        for x, square in zip(squares, made.sums, strict=True):
            _remember(x, x, square)
    return arrays, products


def _place(together: list[Later], vectors: dict[str, Pair]) -> int:
    """The number of the first vector that a group makes the product of."""
    made = (i for i, (_, w) in enumerate(vectors.values()) if any(w is x for x in together))
    return min(made, default=len(vectors))


def _connected(formulas: list[Later]) -> list[list[Later]]:
    """The formulas in groups that have no matrix in common."""
    groups: list[tuple[set[int], list[Later]]] = []
    for formula in formulas:
        mine = {id(matrix(part)) for part in formula.parts() if isinstance(part, Later)}
        touched = [group for group in groups if group[0] & mine]
        groups = [group for group in groups if not group[0] & mine]
        groups.append((mine.union(*(g[0] for g in touched)), [*(x for g in touched for x in g[1]), formula]))
    return [group for _, group in groups]


def matrix(part: Any) -> Any:
    """What tells a matrix from another, in whatever formulas it stands."""
    return part.array if isinstance(part, Whole) else part


def inner_products(pairs: list[Pair], waiting: bool = False) -> list[Any]:
    """The inner product of each pair, of which one at least is a formula: from factors alone where both are such.

    `waiting`: where something is promised and not there yet, the product is a formula as well. Else it is made now.
    """
    found: dict[int, Any] = {}
    for i, (a, b) in enumerate(pairs):
        if (product := _remembered(a, b)) is not None:
            found[i] = product
        elif _are_factors(a, b):
            found[i] = jnp.sum(_gram(a.x, b.x) * _gram(a.d, b.d))
        elif promises := _promises(a, b):
            later = Joined(_inner, a, b)
            found[i] = later if waiting and not all(promise.arrays for promise in promises) else now(later)
    left = [i for i in range(len(pairs)) if i not in found]
    for shape in {pairs[i][0].shape for i in left}:
        together = [i for i in left if pairs[i][0].shape == shape]
        like = next(x for i in together for x in pairs[i] if isinstance(x, Later))
        wanted = [(_term(pairs[i][0], like), _term(pairs[i][1], like)) for i in together]
        found |= dict(zip(together, _by_parts(wanted) or _by_a_pass(wanted), strict=True))
    for i, (a, b) in enumerate(pairs):
        if isinstance(a, Later) and isinstance(b, Later) and not isinstance(found[i], Later):
            _remember(a, b, found[i])
    return [found[i] for i in range(len(pairs))]


def _by_a_pass(pairs: list[Pair]) -> list[jax.Array]:
    parts = (part for pair in pairs for x in pair for part in x.parts())
    after = [x for part in parts if isinstance(part, OuterSum) for x in part.after][:1]
    return pairs[0][0].passed(Wanted(sums=pairs, after=after, beside=bool(after))).sums


def _by_parts(pairs: list[Pair]) -> list[jax.Array] | None:
    """Inner products with a past by those of what it is a sum of, if that leaves a pass fewer to make: the others are
    remembered from the step before, or follow from factors.

    Traces and histories are sums in which nothing cancels. The square of a difference is left to a pass: by parts it
    would be what rounding leaves of large numbers."""
    if not all(_is_past_or_part(x) and _is_sum_of_multiples(x) for pair in pairs for x in pair):
        return None
    terms = [[(f * g, p, q) for f, p in _multiples(a) for g, q in _multiples(b)] for a, b in pairs]
    wanted = {_key(p, q): (p, q) for term in terms for _, p, q in term}
    if sum(_remembered(p, q) is None and not _are_factors(p, q) for p, q in wanted.values()) >= len(pairs):
        return None
    found = dict(zip(wanted, inner_products(list(wanted.values())), strict=True))
    return [functools.reduce(jnp.add, (_share(factor, found[_key(p, q)]) for factor, p, q in term)) for term in terms]


def _share(factor: Any, product: jax.Array) -> jax.Array:
    """What was not chosen has no share, even where it is no number."""
    return jnp.where(factor == 0, 0, factor * product)


def _key(a: Later, b: Later) -> frozenset[int]:
    return frozenset((id(matrix(a)), id(matrix(b))))


def _is_past_or_part(x: Any) -> bool:
    return isinstance(x, Whole | OuterSum) or (isinstance(x, Later) and x.is_past)


def _is_sum_of_multiples(x: Any) -> bool:
    if not isinstance(x, Joined):
        return isinstance(x, Whole | OuterSum) or (isinstance(x, float) and x == 0)
    if x.join in (jnp.multiply, jnp.divide):
        late = [i for i, term in enumerate(x.terms) if isinstance(term, Later)]
        return (late == [0] or (late == [1] and x.join is jnp.multiply)) and _is_sum_of_multiples(x.terms[late[0]])
    terms = x.terms[1:] if x.join is _choice else x.terms
    return x.join in (jnp.add, jnp.subtract, _choice) and all(map(_is_sum_of_multiples, terms))


def _multiples(formula: Later) -> list[tuple[Any, Later]]:
    """The matrices of a sum of multiples, and how much of each there is in it."""
    parts = {id(matrix(part)): part for part in formula.parts() if isinstance(part, Later)}

    def factor(key: int) -> Any:
        return formula.value(lambda part: float(id(matrix(part)) == key) if isinstance(part, Later) else part)

    return [(factor(key), part) for key, part in parts.items()]


def _are_factors(a: Any, b: Any) -> bool:
    return isinstance(a, OuterSum) and isinstance(b, OuterSum)


def _remembered(a: Any, b: Any) -> jax.Array | None:
    if not isinstance(a, Later) or not isinstance(b, Later):
        return None
    return a.known.get(id(matrix(b)), (b, None))[1]


def _remember(a: Later, b: Later, product: jax.Array) -> None:
    for one, other in ((a, b), (b, a)):
        one.known[id(matrix(other))] = other, product


def _inner(a: Value, b: Value) -> Value:
    return jnp.sum(a * b)


def _gram(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b.T, precision=jax.lax.Precision.HIGHEST)
