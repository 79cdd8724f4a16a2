"""What is learnt beside the values: objectives, their images, windows, gates and gradient filters."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from headrace.agents.guard import Clip, Guard, Unguarded
from headrace.agents.network import Layer, Network, Shapes, dense_shapes
from headrace.agents.td import Online, Polyak, Target
from headrace.errors import BadSetting
from headrace.part import Part, added, shape, since, within

Q_NETWORK = ("encoder", "projection", "head")
DRAWS_PER_VIEW = 3  # uniform numbers that one random view of an image is made of


class Augmentation(Part, slot=True):
    """A random view of an image."""


@dataclass(frozen=True)
class AsIs(Augmentation):
    """Images are not augmented."""


@dataclass(frozen=True)
class ShiftAndIntensity(Augmentation):
    """A shift by up to `shift` pixels (edges repeated), then a factor 1 + intensity * clip(N(0, 1), -2, 2)."""

    shift: int = within(4, low=0)  # pixels
    intensity: float = within(0.05, low=0.0)


@dataclass(frozen=True)
class Clipped(Augmentation):
    """Another augmentation whose result is clipped to [low, high]."""

    inner: Augmentation = ShiftAndIntensity()
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.inner, Clipped):
            raise BadSetting(f"Clipped.inner cannot be Clipped itself, got {self.inner!r}")
        if self.low > self.high:
            raise BadSetting(f"Clipped.low must not exceed Clipped.high, got {self.low} and {self.high}")


class Reduction(Part, slot=True):
    """How the losses of the predicted steps become one."""

    def of(self, losses: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class SumOverHorizon(Reduction):
    """The loss is the sum over the predicted steps."""

    def of(self, losses: Any) -> Any:
        return losses.sum()


@dataclass(frozen=True)
class MeanOverHorizon(Reduction):
    """The loss is the mean over the predicted steps."""

    def of(self, losses: Any) -> Any:
        return losses.mean()


class ProjectionLayer(Part, slot=True):
    """Which dense layer the predicted latents are projected by."""

    module: ClassVar[str]


@dataclass(frozen=True)
class Shared(ProjectionLayer):
    """The projection is the Q network's own, before the layer that gives the values."""

    module: ClassVar[str] = "projection"


@dataclass(frozen=True)
class Separate(ProjectionLayer):
    """The projection is a dense layer of the auxiliary's own."""

    module: ClassVar[str] = "aux_projection"


class LookBack(Part, slot=True):
    """Which transitions an objective looks back on."""

    def slots(self, horizon: int) -> int:
        """How many transitions are held for that horizon."""
        return horizon


@dataclass(frozen=True)
class Episode(LookBack):
    """The last transitions of the present episode, aligned; empty when the episode ends."""


@dataclass(frozen=True)
class ReleasedRing(LookBack):
    """The ring of the paper's released code: ready once in horizon + 1 steps, its last image older than all others,
    never emptied. Kept to show what the difference is worth."""

    def slots(self, horizon: int) -> int:
        return horizon + 1


class Objective(Part, slot=True):
    """A loss that is learnt beside the values, from the last few transitions."""

    horizon: Any = 1  # transitions that it looks back on
    window: Any = Episode()
    target: Any = Online()

    def modules(self) -> tuple[str, ...]:
        """The modules that the loss moves. The encoder is one of them."""
        raise NotImplementedError

    def target_modules(self) -> tuple[str, ...]:
        """The modules that have a target."""
        return ()

    def shapes(self, network: Network, observation_shape: tuple[int, ...], n_actions: int) -> Shapes:
        """The modules that are the objective's own."""
        return {}

    def views(self) -> int:
        """How many random views of images one evaluation takes."""
        return 0


@dataclass(frozen=True)
class Spr(Objective):
    """Self-predictive representations (Schwarzer et al. 2021): guess the next latents from the actions taken."""

    horizon: int = shape(5)  # K, steps
    augment: Augmentation = ShiftAndIntensity()
    target: Target = Online()
    reduce: Reduction = SumOverHorizon()
    projection: ProjectionLayer = Shared()
    window: LookBack = Episode()

    def modules(self) -> tuple[str, ...]:
        return ("encoder", self.projection.module, "dynamics", "predictor")

    def target_modules(self) -> tuple[str, ...]:
        return ("encoder", self.projection.module)

    def shapes(self, network: Network, observation_shape: tuple[int, ...], n_actions: int) -> Shapes:
        latent = prod(network.latent_shape(observation_shape))
        separate = {self.projection.module: dense_shapes(latent, network.hidden)}
        own = separate if self.projection.module != Shared.module else {}
        return {
            **own,
            "dynamics": network.dynamics_shapes(n_actions),
            "predictor": dense_shapes(network.hidden, network.hidden),
        }

    def views(self) -> int:
        return self.horizon + 1


@dataclass(frozen=True)
class Curl(Objective):
    """Contrastive learning (Laskin et al. 2020) over the last few observations."""

    batch: int = shape(5)  # observations
    latent: int = shape(128)
    augment: Augmentation = ShiftAndIntensity()
    target: Target = Polyak(keep=0.95)

    def modules(self) -> tuple[str, ...]:
        return ("encoder", "curl_projection", "curl_bilinear")

    def target_modules(self) -> tuple[str, ...]:
        return ("encoder", "curl_projection")

    def shapes(self, network: Network, observation_shape: tuple[int, ...], n_actions: int) -> Shapes:
        latent = prod(network.latent_shape(observation_shape))
        bilinear: list[Layer] = [{"w": (self.latent, self.latent)}]
        return {"curl_projection": dense_shapes(latent, self.latent), "curl_bilinear": bilinear}

    def views(self) -> int:
        return 2 * self.batch


class Gate(Part, slot=True):
    """At which steps the auxiliary learns."""

    def is_open(self, transition: Any, step: Any) -> Any:
        """Whether it learns from the transition of this step, counted from 0."""
        raise NotImplementedError


@dataclass(frozen=True)
class Always(Gate):
    """At every step."""

    def is_open(self, transition: Any, step: Any) -> Any:
        return True


@dataclass(frozen=True)
class Every(Gate):
    """At every n-th step of the run."""

    n: int = within(5, low=1)  # environment steps

    def is_open(self, transition: Any, step: Any) -> Any:
        return step % self.n == 0


@dataclass(frozen=True)
class Greedy(Gate):
    """At steps whose action was greedy."""

    def is_open(self, transition: Any, step: Any) -> Any:
        return transition.greedy


class Filter(Part, slot=True):
    """What is done to a stream of gradients."""


@dataclass(frozen=True)
class Unfiltered(Filter):
    """The gradient as it is."""


class History(Part, slot=True):
    """What Orth's average is made of, and when."""


@dataclass(frozen=True)
class Raw(History):
    """The history averages the gradients as they came; the present one joins after the projection."""


@dataclass(frozen=True)
class Projected(History):
    """The history averages what was left after the projection."""


@dataclass(frozen=True)
class RawCurrent(History):
    """The history averages the gradients as they came, the present one included before the projection."""


class Grouping(Part, slot=True):
    """Which modules are one vector."""

    def vectors(self, names: list[str]) -> list[list[str]]:
        """The names of the modules that are one vector, for each vector."""
        raise NotImplementedError


@dataclass(frozen=True)
class Apart(Grouping):
    """Each module is a vector of its own."""

    def vectors(self, names: list[str]) -> list[list[str]]:
        return [[name] for name in names]


@dataclass(frozen=True)
class Together(Grouping):
    """The Q network's modules (encoder, projection, head) are one vector; every other is one of its own."""

    def vectors(self, names: list[str]) -> list[list[str]]:
        q_network = [name for name in names if name in Q_NETWORK]
        return [q_network, *([name] for name in names if name not in q_network)]


class Rest(Part, slot=True):
    """What becomes of a history on steps without a gradient."""

    def factor(self, beta: Any) -> Any:
        """What it is multiplied by, where steps with a gradient keep the fraction beta."""
        raise NotImplementedError


@dataclass(frozen=True)
class Kept(Rest):
    """Without a gradient, the history does not change."""

    def factor(self, beta: Any) -> Any:
        return 1


@dataclass(frozen=True)
class Fading(Rest):
    """Without a gradient, the history decays as if there had been one of zero."""

    def factor(self, beta: Any) -> Any:
        return beta


@dataclass(frozen=True)
class Orth(Filter):
    """Removes from each module's gradient its component along the average of past gradients."""

    beta: float = within(0.99, 0.0, 1.0)  # fraction of the history kept
    history: History = Raw()
    modules: Grouping = added(Apart())
    rest: Rest = added(Kept())  # on steps without a gradient


class AuxiliaryStream(Part, slot=True):
    """What is learnt beside the values."""

    def modules(self) -> tuple[str, ...]:
        """The modules that it moves."""
        return ()

    def shapes(self, network: Network, observation_shape: tuple[int, ...], n_actions: int) -> Shapes:
        """The modules that are its own."""
        return {}

    def draws(self) -> int:
        """How many uniform numbers one step of it takes."""
        return 0


@dataclass(frozen=True)
class NoAuxiliary(AuxiliaryStream):
    """Values alone."""


@dataclass(frozen=True)
class Auxiliary(AuxiliaryStream):
    """An objective, how strongly and how often it is learnt, and what is done to its gradient."""

    objective: Objective = Spr()
    weight: float = within(2.0, low=0.0)
    lr: float = within(1e-4, low=0.0)
    gate: Gate = Always()
    filter: Filter = Unfiltered()
    guard: Guard = since(Clip(), Unguarded())  # of the loss's gradient, before the filter

    def __post_init__(self) -> None:
        super().__post_init__()
        if "encoder" not in self.modules():
            raise BadSetting(f"an objective learns the encoder, {self.objective!r} only {self.modules()}")

    def modules(self) -> tuple[str, ...]:
        return self.objective.modules()

    def shapes(self, network: Network, observation_shape: tuple[int, ...], n_actions: int) -> Shapes:
        return self.objective.shapes(network, observation_shape, n_actions)

    def draws(self) -> int:
        return DRAWS_PER_VIEW * self.objective.views()
