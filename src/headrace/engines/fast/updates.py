"""How modules move: which directions each has, what filters and merge need to know of them, and the last pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from headrace.agents import (
    Agent,
    Auxiliary,
    AuxOrthogonalToTd,
    Average,
    Bounded,
    Fading,
    Mix,
    Orth,
    PcGrad,
    Present,
    Projected,
    Qrc,
    Raw,
    RawCurrent,
    SharedFlipped,
    Sum,
    Together,
    Unfiltered,
)
from headrace.engines.fast.factored import FactoredLayer, Motion
from headrace.engines.fast.frame import Frame
from headrace.engines.fast.kernels.directions import (
    AS_THEY_ARE,
    AUX_ALONE,
    COEFFICIENTS,
    DIRECTIONS,
    FLIPPED,
    FREE_OF_AVERAGE,
    FREE_OF_PRESENT,
    FREE_OF_UPDATE,
    MIX,
    NO_FILTER,
    PROJECTED,
    RAW,
    RAW_CURRENT,
    SHARED,
    SUM,
    TD_ALONE,
    WITHOUT_CONFLICT,
    C,
    E,
    G,
    M,
    U,
    Z,
    combine,
    sum_grams,
)
from headrace.engines.fast.kernels.flat import follow_alone, follow_trace, products, shorten, update
from headrace.engines.fast.kernels.outers import outer_products, outer_squared_norm, outer_update
from headrace.engines.fast.memory import NONE, Block, Program
from headrace.engines.fast.networks import ValuePass

HISTORIES: dict[type, int] = {Raw: RAW, Projected: PROJECTED, RawCurrent: RAW_CURRENT}


@dataclass(frozen=True)
class Merging:
    """A merge as the machine knows it."""

    merge: int
    join: int
    mix: float = 0.0
    average: float = 0.0  # how much of the moving average of RL updates is kept


@singledispatch
def merging(merge: Any, agent: Agent) -> Merging:
    raise TypeError(f"no way to merge {merge!r}")


@merging.register
def _(merge: Sum, agent: Agent) -> Merging:
    return Merging(AS_THEY_ARE, SUM)


@merging.register
def _(merge: Mix, agent: Agent) -> Merging:
    return Merging(AS_THEY_ARE, MIX, merge.mix)


@merging.register
def _(merge: SharedFlipped, agent: Agent) -> Merging:
    return Merging(AS_THEY_ARE, FLIPPED)


@merging.register
def _(merge: AuxOrthogonalToTd, agent: Agent) -> Merging:
    inner = merging(merge.combine, agent)
    if isinstance(merge.against, Average):
        return Merging(FREE_OF_AVERAGE, inner.join, inner.mix, merge.against.beta)
    assert isinstance(merge.against, Present)
    return Merging(FREE_OF_UPDATE if isinstance(agent.td, Qrc) else FREE_OF_PRESENT, inner.join, inner.mix)


@merging.register
def _(merge: PcGrad, agent: Agent) -> Merging:
    inner = merging(merge.combine, agent)
    return Merging(WITHOUT_CONFLICT, inner.join, inner.mix)


@merging.register
def _(merge: Bounded, agent: Agent) -> Merging:
    return merging(merge.inner, agent)  # `bounds` does the rest


def _together(filter_: Unfiltered | Orth) -> bool:
    return isinstance(filter_, Orth) and isinstance(filter_.modules, Together)


def filter_kind(filter_: Unfiltered | Orth) -> int:
    return HISTORIES[type(filter_.history)] if isinstance(filter_, Orth) else NO_FILTER


def pairs_needed(merging: Merging, td_filter: int, aux_filter: int, share: int, told: bool) -> set[tuple[int, int]]:
    """The inner products that the coefficients of a module are made of; `told` if its cosines are reported."""
    aux = {G} if aux_filter == NO_FILTER else {G, C}
    td = {U} if td_filter == NO_FILTER else {U, E}
    found: set[tuple[int, int]] = set()
    if share != TD_ALONE:
        found |= _pairs(aux, aux)
    if share != AUX_ALONE and td_filter != NO_FILTER:
        found |= _pairs(td, td)
    if told:
        found |= _pairs(td | aux, td | aux)
    if share == SHARED:
        along = {
            AS_THEY_ARE: set(), FREE_OF_PRESENT: {Z}, FREE_OF_UPDATE: {U}, FREE_OF_AVERAGE: {M} | td,
            WITHOUT_CONFLICT: td,
        }[merging.merge]  # fmt: skip
        found |= _pairs(along, along) | _pairs(along, aux)
    return found


def _pairs(some: set[int], others: set[int]) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a in some for b in others}


def mask_of(pairs: set[tuple[int, int]]) -> int:
    return sum(1 << (DIRECTIONS * a + b) for a, b in pairs)


@dataclass
class Rule:
    """What all modules of an agent have in common when they move."""

    frame: Frame
    keep: int  # how much of a trace is kept
    terms: int  # how far the RL update goes along trace, gradient of Q(s, a) and gradient of max Q(s')
    td_square: int  # sums: squared norms of both updates
    aux_square: int

    def __post_init__(self) -> None:
        agent, memory = self.frame.agent, self.frame.memory
        aux = agent.aux if isinstance(agent.aux, Auxiliary) else Auxiliary(weight=0.0)
        self.merging = merging(agent.merge, agent)
        self.td_filter, self.aux_filter = filter_kind(agent.td_filter), filter_kind(aux.filter)
        self.td_beta = memory.real(agent.td_filter.beta if isinstance(agent.td_filter, Orth) else 0.0)
        self.aux_beta = memory.real(aux.filter.beta if isinstance(aux.filter, Orth) else 0.0)
        self.descent = memory.real(-aux.lr * aux.weight)
        self.mix, self.average = memory.real(self.merging.mix), memory.real(self.merging.average)
        self.cosines = memory.real(0.0, 0.0)
        self.fades = isinstance(aux.filter, Orth) and isinstance(aux.filter.rest, Fading)
        # The inner products of the Q network as one vector, for filters that see it as one.
        self.whole = memory.sum(DIRECTIONS**2)
        self.td_together, self.aux_together = _together(agent.td_filter), _together(aux.filter)


class Module:
    """One module of the Q network or of the auxiliary, on its way from gradients to new weights."""

    def __init__(self, rule: Rule, name: str, share: int, trace: Block | None) -> None:
        frame, memory = rule.frame, rule.frame.memory
        self.rule, self.name, self.share, self.trace = rule, name, share, trace
        self.weights = frame.params[name]
        self.alone = share == TD_ALONE and rule.td_filter == NO_FILTER  # the RL update is taken as it is
        self.gram, self.coefficients = memory.sum(DIRECTIONS**2), memory.real(1.0, *[0.0] * (COEFFICIENTS - 1))
        in_td, in_aux, shared = share != AUX_ALONE, share != TD_ALONE, share == SHARED
        self.c = self._past(f"aux/history/{name}", in_aux and rule.aux_filter != NO_FILTER)
        self.e = self._past(f"td_history/{name}", in_td and rule.td_filter != NO_FILTER)
        self.m = self._past(f"merge/{name}", shared and rule.merging.merge == FREE_OF_AVERAGE)
        told = name == "encoder" and shared
        pairs = pairs_needed(rule.merging, rule.td_filter, rule.aux_filter, share, told)
        self.pairs, self.told = pairs, told
        # Measured before any module moves, since what others measure counts too.
        in_q = name in ("encoder", "projection", "head") and not self.alone
        self.tied = in_q and (rule.td_together or rule.aux_together)

    def _past(self, name: str, exists: bool) -> int:
        return self.rule.frame.block(self.name, name).offset if exists else NONE

    def measure(self, program: Program) -> None:
        """Inner products."""
        raise NotImplementedError

    def tie(self, program: Program) -> None:
        """Measures a module that is part of a larger vector."""
        if self.tied:
            self.measure(program)
            program.emit(sum_grams, gram=self.gram, out=self.rule.whole)

    def rest(self, program: Program) -> None:
        """What becomes of the auxiliary's history on steps on which it does not learn."""
        if self.c != NONE and self.rule.fades:
            with program.only_if(self.rule.frame.resting):
                program.emit(shorten, a=self.c, size=self.weights.size, factor=self.rule.aux_beta)

    def combine(self, program: Program) -> None:
        rule = self.rule
        td_gram = rule.whole if self.tied and rule.td_together else self.gram
        aux_gram = rule.whole if self.tied and rule.aux_together else self.gram
        program.emit(
            combine, gram=self.gram, td_gram=td_gram, aux_gram=aux_gram, out=self.coefficients,
            active=rule.frame.active, share=self.share, td_filter=rule.td_filter, td_beta=rule.td_beta,
            aux_filter=rule.aux_filter, aux_beta=rule.aux_beta, descent=rule.descent, merge=rule.merging.merge,
            join=rule.merging.join, mix=rule.mix, average_beta=rule.average, aux_square=rule.aux_square,
            cosines=rule.cosines if self.told else NONE,
        )  # fmt: skip

    def _masks(self, left_out: set[tuple[int, int]]) -> dict[str, int]:
        wanted = self.pairs - left_out
        return {"mask": mask_of(wanted), "mask_at_rest": mask_of({p for p in wanted if G not in p and C not in p})}


@dataclass
class Flat:
    """Gradients of a module, written out; those it has none of are absent."""

    q: Block | None = None
    value: Block | None = None
    aux: Block | None = None


class FlatModule(Module):
    def __init__(self, rule: Rule, name: str, share: int, trace: Block | None, gradients: Flat) -> None:
        super().__init__(rule, name, share, trace)
        self.gradients = gradients
        self._u = rule.frame.scratch(name).offset if gradients.q and not self.alone else NONE

    def move(self, program: Program) -> None:
        """Trace, coefficients and weights."""
        if self.alone:
            self._move_alone(program)
        else:
            self._move_along_all(program)

    def _move_alone(self, program: Program) -> None:
        rule, q, value = self.rule, self.gradients.q, self.gradients.value
        program.emit(
            follow_alone, w=self.weights.offset, z=at(self.trace), g=at(q), v=at(value), size=self.weights.size,
            keep=rule.keep, terms=rule.terms, square=rule.td_square,
        )  # fmt: skip

    def measure(self, program: Program) -> None:
        """The trace, and inner products."""
        rule, q, size = self.rule, self.gradients.q, self.weights.size
        if q:
            program.emit(
                follow_trace, z=at(self.trace), g=q.offset, v=at(self.gradients.value), u=self._u, size=size,
                keep=rule.keep, terms=rule.terms, square=rule.td_square,
            )  # fmt: skip
        if self.pairs:
            active, masks = rule.frame.active, self._masks(set())
            program.emit(products, gram=self.gram, active=active, **masks, size=size, **self._places())

    def _move_along_all(self, program: Program) -> None:
        if not self.tied:
            self.measure(program)
        self.combine(program)
        program.emit(
            update, active=self.rule.frame.active, coefficients=self.coefficients, size=self.weights.size,
            w=self.weights.offset, **self._places(),
        )  # fmt: skip

    def _places(self) -> dict[str, int]:
        z = at(self.trace) if self.trace else at(self.gradients.q)
        return {"u": self._u, "g": at(self.gradients.aux), "c": self.c, "e": self.e, "m": self.m, "z": z}


@dataclass
class Outer:
    """Gradients of a dense layer as sums of outer products: rows of inputs that end in a one, and rows of slopes."""

    q: tuple[int, int] = (NONE, NONE)
    value: tuple[int, int] = (NONE, NONE)
    aux: tuple[int, int] = (NONE, NONE)
    count: int = 0  # outer products in the auxiliary's gradient


class OuterModule(Module):
    def __init__(self, rule: Rule, name: str, share: int, trace: Block | None, gradients: Outer) -> None:
        super().__init__(rule, name, share, trace)
        self.gradients = gradients
        inputs, self.outputs = self.weights.layers[0].shapes["w"]
        self.inputs = inputs + 1
        self._rows = rule.frame.memory.room(max(3 * self.outputs, 5))  # three rows, or five sums

    def weigh(self, program: Program) -> None:
        """Inner products and coefficients."""
        if self.alone:
            return
        if not self.tied:
            self.measure(program)
        self.combine(program)

    def measure(self, program: Program) -> None:
        rule, g = self.rule, self.gradients
        norm_apart = {(G, G)}
        masks = self._masks(norm_apart)
        if masks["mask"]:
            program.emit(outer_products, gram=self.gram, **masks, **self._places(), c=self.c, e=self.e, m=self.m)
        if g.count:
            with program.only_if(rule.frame.active):
                program.emit(
                    outer_squared_norm, x=g.aux[0], d=g.aux[1], count=g.count, inputs=self.inputs,
                    outputs=self.outputs, out=self.gram + DIRECTIONS * G + G,
                )  # fmt: skip

    def move(self, program: Program, x_next: int, y: int) -> None:
        """The last pass; the next input goes through the layer on the way, where there is one."""
        program.emit(
            outer_update, coefficients=self.coefficients, w=self.weights.offset, **self._places(), c=self.c, e=self.e,
            m=self.m, square=self.rule.td_square, x_next=x_next, y=y,
        )  # fmt: skip

    def _places(self) -> dict[str, int]:
        rule, g = self.rule, self.gradients
        return {
            "active": rule.frame.active, "inputs": self.inputs, "outputs": self.outputs, "z": at(self.trace),
            "keep": rule.keep, "x": g.q[0], "d": g.q[1], "x_value": g.value[0], "d_value": g.value[1],
            "terms": rule.terms, "x_aux": g.aux[0], "d_aux": g.aux[1], "count": g.count, "rows": self._rows,
        }  # fmt: skip


class FactoredModule:
    """A projection that learns from the RL update alone, and is kept as factors."""

    def __init__(self, rule: Rule, layer: FactoredLayer, acting: ValuePass, following: ValuePass, x: int) -> None:
        """`x` is where the latent is kept that the gradient belongs to."""
        self._layer, self._acting, self._following = layer, acting, following
        self._motion = Motion(
            rule.keep, rule.terms, rule.td_square, x, acting.d, x_value=following.x, d_value=following.d
        )

    def weigh(self, program: Program) -> None:
        """The update is taken as it is."""

    tie = rest = weigh

    def move(self, program: Program, x_next: int, y: int) -> None:
        self._layer.move(program, self._motion, self._acting, self._following)
        self._layer.through(program, self._acting)


def learns_from_td_alone(agent: Agent) -> bool:
    """Whether the Q network's projection moves by the RL update as it is, and by nothing else."""
    return not isinstance(agent.aux, Auxiliary) and isinstance(agent.td_filter, Unfiltered)


def at(block: Block | None) -> int:
    return block.offset if block else NONE
