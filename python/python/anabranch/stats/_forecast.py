"""Calibrated promises along a series of bandwidth samples, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .. import _anabranch as raw
from ..errors import StatsError
from . import _input

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Account:
    """Promises of one probability by outcome; single samples of promises that are judged by each."""

    #: Those that were reached.
    kept: int
    #: Those that were not.
    broken: int
    #: Those about which a lower bound said nothing.
    unknown: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """Promises along a series."""

    #: The probabilities, increasing.
    levels: tuple[float, ...]
    #: Shape (samples + 1, levels), float64, whole bit/s: row t is what was promised before sample t, from the samples before it
    #: alone; the last row is about the samples to come. NaN: too little was known.
    promises: NDArray[Any]
    #: Outcomes, by level.
    accounts: tuple[Account, ...]

    @property
    def next(self) -> NDArray[Any]:
        """Rates that the next samples reach, by level: the last row of the promises."""
        last: NDArray[Any] = self.promises[-1]
        return last

    def at(self, p: float) -> NDArray[Any]:
        """The promises of one level before each of the samples, shape (samples,)."""
        for index, level in enumerate(self.levels):
            if abs(level - p) < 1e-9:
                column: NDArray[Any] = self.promises[:-1, index]
                return column
        raise StatsError(f"p is {p!r}; the levels are {', '.join(map(str, self.levels))}")


def forecast(
    samples: ArrayLike,
    levels: float | Sequence[float] = (0.5, 0.75, 0.9, 0.95, 0.99),
    *,
    hold: int = 1,
    judged: Literal["whole", "each"] = "whole",
    at_least: ArrayLike | None = None,
) -> Forecast:
    """Promises that a node would have made along a series of samples, each from the samples before it.

    ``samples``: shape (samples,), rates in bit/s, rounded to whole ones, in the order of time. ``levels``: probabilities, 0.5 to
    0.99, increasing, 16 at most; each is calibrated, so that over any long run the share of promises kept is the one stated.
    ``hold``: samples for which a promise stands, 1 to 60; it is kept if all of them reach it (``judged="whole"``), or counted sample
    by sample (``"each"``). ``at_least``: booleans of the shape of the samples, true for lower bounds, taken while the sender had
    too little to send. About 10 µs for each sample.
    """
    if judged not in ("whole", "each"):
        raise StatsError(f"judged is {judged!r}; it must be whole or each")
    given = _input.series("samples", samples)
    wanted = (levels,) if isinstance(levels, int | float) else tuple(levels)
    asked = _input.series("levels", wanted)
    bounds = None if at_least is None else _input.flags("at_least", at_least, given.shape)
    if not 0 <= hold < 1 << 31:
        raise StatsError(f"hold is {hold}; it must be 1 to 60")
    promises = _input.numpy().empty((len(given) + 1, len(wanted)))
    accounts = raw.forecast(given, bounds, asked, hold, judged == "each", promises)
    return Forecast(tuple(map(float, wanted)), promises, tuple(Account(*account) for account in accounts))


@dataclass(frozen=True, slots=True)
class Score:
    """Figures of promises of one probability."""

    #: Promises judged.
    count: int
    #: Promises broken.
    broken: int
    #: Share of promises kept.
    kept_share: float
    #: Share of broken promises after which the next one was broken, too; ``None``: none has a successor.
    repeat_share: float | None
    #: The smallest share kept of 500 promises in a row, or of all if they are fewer.
    block_kept_least: float
    #: Mean of the promises that were kept, in their unit.
    useful: float
    #: Mean pinball loss at the level 1 − p, in their unit.
    pinball: float


def score(promises: ArrayLike, outcomes: ArrayLike, p: float) -> Score:
    """Judges promises made with probability ``p``: ``promises[t]`` was made before ``outcomes[t]`` and is kept if the outcome is
    at least the promise. Both have the shape (promises,)."""
    made, came = _input.series("promises", promises), _input.series("outcomes", outcomes)
    if made.shape != came.shape:
        raise StatsError(f"there are {len(made)} promises and {len(came)} outcomes; give as many of both")
    return Score(**raw.score(made, came, _input.probability("p", p)))
