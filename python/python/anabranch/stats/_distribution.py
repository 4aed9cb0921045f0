"""Distribution of the samples of one path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _anabranch as raw
from ..errors import StatsError
from . import _input

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def quantile(samples: ArrayLike, p: ArrayLike) -> Any:
    """The smallest sample b that at least the share ``p`` of all samples does not exceed: F(b) ≥ p.

    ``samples``: shape (samples,), of any unit, in any order. ``p``: one level or an array of them, 0 to 1; the smallest sample
    for 0. Returns a number, or an array of the shape of ``p``. O(n log n).
    """
    return _at_levels(samples, p, of_next=False)


def quantile_of_next(samples: ArrayLike, p: ArrayLike) -> Any:
    """The quantile at ``p`` of the next sample: the k-th of n samples stands at k/(n + 1), with straight lines between, and down
    to 0 at ``p`` = 0.

    For samples of at least 0, such as rates. Below 1/(n + 1) it goes to 0, because n samples say nothing about what happens
    more rarely than once in n. Arguments and result are those of :func:`quantile`.
    """
    return _at_levels(samples, p, of_next=True)


def _at_levels(samples: ArrayLike, p: ArrayLike, *, of_next: bool) -> Any:
    points = _input.levels("p", p)
    out = _input.answer(points)
    raw.quantiles(_input.series("samples", samples), points.reshape(-1), of_next, out.reshape(-1))
    return _input.shaped(out, points)


def rolling_quantile(samples: ArrayLike, count: int, p: float, *, of_next: bool = False) -> NDArray[Any]:
    """At each sample, the quantile at ``p`` of the last ``count`` samples, that one included.

    ``samples``: shape (samples,), in the order of time. ``of_next``: as :func:`quantile_of_next`, else as :func:`quantile`.
    Returns shape (samples,), NaN before there are ``count`` samples. Shifted by one, it is a percentile predictor.
    """
    given = _input.series("samples", samples)
    if not 1 <= count <= 1 << 31:
        raise StatsError(f"count is {count}; it must be 1 to 2^31")
    level = float(_input.levels("p", p))
    out = _input.answer(given)
    raw.rolling_quantile(given, count, level, of_next, out)
    return out


def cdf(samples: ArrayLike, b: ArrayLike) -> Any:
    """F(b): the share of samples that are at most ``b``, a number or an array. Lemma 1 of IQ-Paths takes it at the rate that x
    packets need in a window."""
    points = _input.points("b", b)
    out = _input.answer(points)
    raw.shares(_input.series("samples", samples), points.reshape(-1), out.reshape(-1))
    return _input.shaped(out, points)


def partial_mean(samples: ArrayLike, b: ArrayLike) -> Any:
    """E[s·1{s ≤ b}]: the sum of the samples that are at most ``b`` over the number of all samples, in their unit; M[b] in Lemma 2
    of IQ-Paths."""
    points = _input.points("b", b)
    out = _input.answer(points)
    raw.partial_means(_input.series("samples", samples), points.reshape(-1), out.reshape(-1))
    return _input.shaped(out, points)


@dataclass(frozen=True, slots=True)
class Durable:
    """A promise that stands for as long as the path drifts less than a quarter."""

    #: Probability with which a sample reaches the promise.
    probability: float
    #: The promise, in the unit of the samples; 0 when nothing can be promised.
    rate: float
    #: The largest rate that the share ``probability`` of the history reached.
    kept_rate: float
    #: The largest drift from the whole history to one of its halves or quarters.
    drift: float
    #: The largest share of the history in which such a promise would have been broken, over the share that may be.
    broken_over_allowed: float
    #: True if the history itself would have kept such promises.
    is_steady: bool

    def drift_to(self, since: ArrayLike) -> float:
        """The share by which the rate that is kept has fallen in the samples ``since`` the promise. Below 0.25, the promise
        holds in them; 0 or less: nothing fell."""
        return raw.drift(self.kept_rate, self.probability, _input.series("since", since))


def durable(history: ArrayLike, p: float) -> Durable:
    """The durable promise with probability ``p`` of a history: shape (samples,), at least 40, in the order of time, none below 0.

    It is the quantile of the next sample at (1 − p)/2, and three quarters of the rate that the share ``p`` reached at most.
    """
    return Durable(**raw.durable(_input.series("history", history), _input.probability("p", p)))
