"""All that a step sends through the projection: forwards in one pass over its weights, back in another.

Q(s, a), max Q(s', .) and SPR each send rows through the same weights, make a number of what comes out, and want its
gradient: each by itself would go through the weights twice. What the projection makes of s is known (`seen_ahead`).
What is not learnt, the imagined latents above all and the encoded successor, need not wait for all else to be done
(decisions 0028 and 0031).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Agent, Auxiliary, Dqn, Episode, Latest, Online, Qrc, Shared, Spr
from headrace.engines.reference.agent import AgentState, Draws, Projected, found_before, found_together
from headrace.engines.reference.augment import augment, views
from headrace.engines.reference.fused.behind import Slopes, best_of, guessed, value_of, values_of
from headrace.engines.reference.fused.dense import parts_times, parts_turned
from headrace.engines.reference.fused.halves import Kept, dynamics_gradient, encoded, encoder_gradient, imagined
from headrace.engines.reference.fused.many import ForMany
from headrace.engines.reference.fused.passes import passed
from headrace.engines.reference.later import OuterSum, now, promised
from headrace.engines.reference.networks import Latent, Layout, Modules, Seen, apart, of_actions, q_seen
from headrace.engines.reference.objectives import reduced, rows_of
from headrace.engines.reference.td import value_modules
from headrace.engines.reference.transition import Transition

Found = dict[str, tuple[jax.Array, Modules]]
Waited = Sequence[jax.Array]  # what has to be there before a kernel begins
# From the gradients of rows to those of the modules that made them; and what the ways back of other rows wait for.
Back = Callable[[jax.Array, Waited], tuple[Modules, Waited]]


class Valued(NamedTuple):
    """Q(s, a) or h(s, a), and its gradient down to what came out of the projection."""

    value: jax.Array
    slope: jax.Array
    head: Any
    latent: Latent


class Imagined(NamedTuple):
    """What SPR imagines, where it begins, and the truths that are known: all but the last."""

    image: jax.Array
    first: Latent
    actions: jax.Array
    latents: jax.Array
    kept: Kept
    truths: jax.Array


class Before(NamedTuple):
    """What is known of a step before it is learnt from."""

    q: Valued
    h: Any  # () where there is none
    successor: Any  # its latent; () where it is not needed
    imagined: Any  # () where SPR does not go through the projection
    last: Any  # the last truth: that of the successor


@found_before.register
def _(
    network: ForMany, agent: Agent, layout: Layout, state: AgentState, t: Transition, draws: Draws,
    projected: Projected,
) -> Any:  # fmt: skip
    if "projection" not in projected:
        return ()
    net, encoder = network.network, state.params["encoder"]
    latent: Any = ()
    if _learns_from_this(agent.td) and isinstance(agent.td.target, Online):
        latent = Latent(*encoded(net, encoder, t.next_obs))
    action = apart(network, t.action)  # or the compiler has the choice wait for h
    q = _valued(value_modules(state.params), action, projected["projection"])
    h: Any = ()
    if "h_projection" in projected:
        h = _valued(value_modules(state.params, "h_"), action, projected["h_projection"])
    spr = _spr_of(agent.aux)
    if not spr:
        return Before(q, h, latent, (), ())
    last = _encoded_rows(net, encoder, _viewed(spr, t.next_obs[None], draws, slice(-1, None)))
    # Or the compiler makes the window's images together with what the environment answers.
    seen = apart(network, (spr, state.aux.window, t.obs, draws))
    after = [projected["projection"].row]
    return Before(q, h, latent, _imagine(net, layout, state.params, action, after, *seen), last)


@q_seen.register
def _(network: ForMany, layout: Layout, modules: Modules, row: jax.Array) -> jax.Array:
    """By a kernel of its own, or the compiler has the choice wait for what else it makes of the head."""
    return of_actions(layout, values_of(modules["projection"][0]["b"], modules["head"][0], row))


def _valued(modules: Modules, action: jax.Array, seen: Seen) -> Valued:
    found = value_of(action, modules["projection"][0]["b"], modules["head"][0], seen.row)
    return Valued(found.value, found.rows, [found.layer], seen.latent)


def _imagine(
    net: Any, layout: Layout, params: Modules, action: jax.Array, after: Waited,
    spr: Spr, window: Any, obs: jax.Array, draws: Draws,
) -> Imagined:  # fmt: skip
    """The images are encoded once all in `after` is there: the pass over Q, which would otherwise wait for them."""
    images = _viewed(spr, _with(window.observations, obs), draws, slice(-1))
    actions = jax.nn.one_hot(_with(window.actions, action), layout.n_actions)
    first = Latent(*encoded(net, params["encoder"], images[0], after))
    latents, kept = imagined(net, params["dynamics"], first.z, actions)
    truths = _encoded_rows(net, params["encoder"], images[1:], after) if len(images) > 1 else rows_of(latents)[:0]
    return Imagined(images[0], first, actions, latents, kept, truths)


def _encoded_rows(net: Any, encoder: Any, images: jax.Array, after: Waited = ()) -> jax.Array:
    return rows_of(jax.vmap(lambda image: encoded(net, encoder, image, after)[0])(images))


def _with(window: jax.Array, newest: jax.Array) -> jax.Array:
    return jnp.concatenate([window[1:], newest[None]])


def _viewed(spr: Spr, images: jax.Array, draws: Draws, which: slice) -> jax.Array:
    chosen = jax.tree.map(lambda x: x[which], views(draws.aux))
    return jax.vmap(augment, (None, 0, 0))(spr.augment, images, chosen)


def _to_encoder(net: Any, layers: Any, image: jax.Array, latent: Latent) -> Back:
    def back(dx: jax.Array, after: Waited) -> tuple[Modules, Waited]:
        dz = dx.reshape(latent.z.shape)
        return {"encoder": encoder_gradient(net, layers, image, latent, dz, after)}, after

    return back


class Sent(NamedTuple):
    """Rows for the projection, and what is made of what comes out."""

    rows: jax.Array
    beside: Sequence[jax.Array]  # rows without a gradient
    slopes: Callable[[jax.Array, Sequence[jax.Array]], Slopes]  # of what comes out, and of what does beside
    behind: str  # the module behind the projection
    back: Back


class Returning(NamedTuple):
    """A value, and its gradient down to what came out of the projection."""

    value: jax.Array
    rows: jax.Array
    slopes: jax.Array
    behind: Modules
    back: Back


@found_together.register
def _(network: ForMany, agent: Agent, layout: Layout, state: AgentState, t: Transition) -> Found:
    if not t.before:
        return {}
    net, before, params = network.network, t.before, state.params
    modules = jax.tree.map(now, {name: params[name] for name in params if not name.endswith("projection")})
    w, b = now(params["projection"][0]["w"]), params["projection"][0]["b"]
    sent, returning = {}, {}
    if _learns_from_this(agent.td):
        returning["q"] = _returning(net, modules["encoder"], t.obs, before.q)
    if before.successor:
        sent["v"] = _best_value(net, layout, modules, b, t)
    if spr := _spr_of(agent.aux):
        sent["aux"] = _guesses(net, spr, modules, b, before.imagined, before.last)
    came_out = parts_times(parts, w) if (parts := _parts(sent)) else []
    returning |= _made_of(sent, iter(came_out))
    found: Found = {}
    if "v" in returning and not isinstance(agent.td, Qrc):
        found["v"] = returning.pop("v").value, {}
    found |= _backwards(returning, w)
    if before.h:
        h = {"h": _returning(net, modules["h_encoder"], t.obs, before.h)}
        found |= _backwards(h, now(params["h_projection"][0]["w"]), came_out[:1], beside=True)  # not in a hurry
    return found


def _parts(sent: dict[str, Sent]) -> list[jax.Array]:
    return [rows for s in sent.values() for rows in (s.rows, *s.beside)]


def _made_of(sent: dict[str, Sent], came_out: Iterator[jax.Array]) -> dict[str, Returning]:
    """What each makes of its parts of what came out, which are in the order in which they were sent."""
    made = {}
    for name, s in sent.items():
        value, slopes, layer = s.slopes(next(came_out), list(islice(came_out, len(s.beside))))
        made[name] = Returning(value, s.rows, slopes, {s.behind: [layer]}, s.back)
    return made


def _learns_from_this(rule: Any) -> bool:
    """Whether a rule learns from this very transition, and not from one that it recalls."""
    return not isinstance(rule, Dqn) or isinstance(rule.memory, Latest)


def _spr_of(aux: Any) -> Spr | None:
    """SPR, where its guesses and truths both go through the projection of now, its window being in order."""
    if not isinstance(aux, Auxiliary) or not isinstance(aux.objective, Spr):
        return None
    parts = aux.objective.projection, aux.objective.target, aux.objective.window
    fits = all(isinstance(part, kind) for part, kind in zip(parts, (Shared, Online, Episode), strict=True))
    return aux.objective if fits else None


def _best_value(net: Any, layout: Layout, modules: Modules, b: jax.Array, t: Transition) -> Sent:
    def slopes(y: jax.Array, _: Sequence[jax.Array]) -> Slopes:
        return best_of(layout.actions, b, modules["head"][0], y)

    latent = t.before.successor
    back = _to_encoder(net, modules["encoder"], t.next_obs, latent)
    return Sent(latent.z.reshape(1, -1), (), slopes, "head", back)


def _guesses(net: Any, spr: Spr, modules: Modules, b: jax.Array, given: Imagined, last: jax.Array) -> Sent:
    def slopes(y: jax.Array, truths: Sequence[jax.Array]) -> Slopes:
        # A sum or a mean: each guess has a fixed share in the loss.
        shares = jax.grad(lambda cosines: reduced(spr.reduce, -cosines))(jnp.zeros(len(y)))
        found = guessed(shares, b, modules["predictor"][0], y, truths)
        return found._replace(value=reduced(spr.reduce, -found.value))

    def back(dx: jax.Array, after: Waited) -> tuple[Modules, Waited]:
        d = dx.reshape(given.latents.shape)
        dz, layers = dynamics_gradient(
            net, modules["dynamics"], given.first.z, given.actions, given.latents, given.kept, d
        )
        made, _ = _to_encoder(net, modules["encoder"], given.image, given.first)(dz, after)
        return {**made, "dynamics": promised(layers)}, [dz]  # which takes the card's registers, and all wait for it

    truths = [x for x in (given.truths, last) if len(x)]
    return Sent(rows_of(given.latents), truths, slopes, "predictor", back)


def _returning(net: Any, encoder: Any, obs: jax.Array, valued: Valued) -> Returning:
    back = _to_encoder(net, encoder, obs, valued.latent)
    return Returning(valued.value, valued.latent.z.reshape(1, -1), valued.slope, {"head": valued.head}, back)


def _backwards(returning: dict[str, Returning], w: jax.Array, after: Waited = (), beside: bool = False) -> Found:
    if not returning:
        return {}
    rows = parts_turned([r.slopes for r in returning.values()], w, after, beside)
    found: Found = {}
    waited: Waited = ()
    for (name, r), dx in reversed(list(zip(returning.items(), rows, strict=True))):  # the longest way back comes first
        back, waited = r.back(dx, waited)
        # Its inner products with a history are not in a hurry: small kernels of the way back go first.
        weights = OuterSum(r.rows, r.slopes, passed, after=[back["encoder"][0]["b"]])
        projection: Any = {"w": weights, "b": jnp.sum(r.slopes, axis=0)}
        found[name] = r.value, {**back, "projection": [projection], **r.behind}
    return found
