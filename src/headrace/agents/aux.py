"""What is learnt beside the values: objectives, their images, windows, gates and gradient filters."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.agents.guard import Clip, Unguarded
from headrace.agents.td import Copy, Online, Polyak
from headrace.errors import BadSetting
from headrace.part import Part, added, shape, since, within

__all__ = [
    "Always", "Apart", "AsIs", "Auxiliary", "Clip", "Clipped", "Copy", "Curl", "Episode", "Every", "Fading", "Greedy",
    "Kept", "MeanOverHorizon", "NoAuxiliary", "Online", "Orth", "Polyak", "Projected", "Raw", "RawCurrent",
    "ReleasedRing", "Separate", "Shared", "ShiftAndIntensity", "Spr", "SumOverHorizon", "Together", "Unfiltered",
    "Unguarded",
]  # fmt: skip


@dataclass(frozen=True)
class AsIs(Part):
    """Images are not augmented."""


@dataclass(frozen=True)
class ShiftAndIntensity(Part):
    """A shift by up to `shift` pixels (edges repeated), then a factor 1 + intensity * clip(N(0, 1), -2, 2)."""

    shift: int = within(4, low=0)  # pixels
    intensity: float = within(0.05, low=0.0)


@dataclass(frozen=True)
class Clipped(Part):
    """Another augmentation whose result is clipped to [low, high]."""

    inner: ShiftAndIntensity | AsIs = ShiftAndIntensity()
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise BadSetting(f"Clipped.low must not exceed Clipped.high, got {self.low} and {self.high}")


@dataclass(frozen=True)
class SumOverHorizon(Part):
    """The loss is the sum over the predicted steps."""


@dataclass(frozen=True)
class MeanOverHorizon(Part):
    """The loss is the mean over the predicted steps."""


@dataclass(frozen=True)
class Shared(Part):
    """The projection is the Q head's first dense layer."""


@dataclass(frozen=True)
class Separate(Part):
    """The projection is a dense layer of the auxiliary's own."""


@dataclass(frozen=True)
class Episode(Part):
    """The last transitions of the present episode, aligned; empty when the episode ends."""


@dataclass(frozen=True)
class ReleasedRing(Part):
    """The ring of the paper's released code: ready once in horizon + 1 steps, its last image older than all others,
    never emptied. Kept to show what the difference is worth."""


@dataclass(frozen=True)
class Spr(Part):
    """Self-predictive representations (Schwarzer et al. 2021): guess the next latents from the actions taken."""

    horizon: int = shape(5)  # K, steps
    augment: ShiftAndIntensity | AsIs | Clipped = ShiftAndIntensity()
    target: Online | Copy | Polyak = Online()
    reduce: SumOverHorizon | MeanOverHorizon = SumOverHorizon()
    projection: Shared | Separate = Shared()
    window: Episode | ReleasedRing = Episode()


@dataclass(frozen=True)
class Curl(Part):
    """Contrastive learning (Laskin et al. 2020) over the last few observations."""

    batch: int = shape(5)  # observations
    latent: int = shape(128)
    augment: ShiftAndIntensity | AsIs | Clipped = ShiftAndIntensity()
    target: Online | Copy | Polyak = Polyak(keep=0.95)


@dataclass(frozen=True)
class Always(Part):
    """At every step."""


@dataclass(frozen=True)
class Every(Part):
    """At every n-th step of the run."""

    n: int = within(5, low=1)  # environment steps


@dataclass(frozen=True)
class Greedy(Part):
    """At steps whose action was greedy."""


@dataclass(frozen=True)
class Unfiltered(Part):
    """The gradient as it is."""


@dataclass(frozen=True)
class Raw(Part):
    """The history averages the gradients as they came; the present one joins after the projection."""


@dataclass(frozen=True)
class Projected(Part):
    """The history averages what was left after the projection."""


@dataclass(frozen=True)
class RawCurrent(Part):
    """The history averages the gradients as they came, the present one included before the projection."""


@dataclass(frozen=True)
class Apart(Part):
    """Each module is a vector of its own."""


@dataclass(frozen=True)
class Together(Part):
    """The Q network's modules (encoder, projection, head) are one vector; every other is one of its own."""


@dataclass(frozen=True)
class Kept(Part):
    """Without a gradient, the history does not change."""


@dataclass(frozen=True)
class Fading(Part):
    """Without a gradient, the history decays as if there had been one of zero."""


@dataclass(frozen=True)
class Orth(Part):
    """Removes from each module's gradient its component along the average of past gradients."""

    beta: float = within(0.99, 0.0, 1.0)  # fraction of the history kept
    history: Raw | Projected | RawCurrent = Raw()
    modules: Apart | Together = added(Apart())
    rest: Kept | Fading = added(Kept())  # on steps without a gradient


@dataclass(frozen=True)
class NoAuxiliary(Part):
    """Values alone."""


@dataclass(frozen=True)
class Auxiliary(Part):
    """An objective, how strongly and how often it is learnt, and what is done to its gradient."""

    objective: Spr | Curl = Spr()
    weight: float = within(2.0, low=0.0)
    lr: float = within(1e-4, low=0.0)
    gate: Always | Every | Greedy = Always()
    filter: Unfiltered | Orth = Unfiltered()
    guard: Clip | Unguarded = since(Clip(), Unguarded())  # of the loss's gradient, before the filter
