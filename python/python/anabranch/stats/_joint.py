"""Simultaneous samples of several paths.

Samples have the shape (rows, paths): a row for each window of time. A sample may be a lower bound, because the sender had no more to
send (``at_least``), or missing (``missing``); both are arrays of booleans of the shape of the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .. import _anabranch as raw
from ..errors import StatsError
from . import _input

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class Share:
    """The share of rows in which something holds: an interval, because lower bounds and missing samples leave rows open."""

    #: Share of rows in which it certainly holds.
    low: float
    #: Share of rows in which it is not certain to fail.
    high: float
    #: Number of rows.
    rows: int


@dataclass(frozen=True, slots=True)
class Level:
    """A rate that paths reach together with a stated probability."""

    #: The rate, in the unit of the samples. Lower bounds count as they are, so that the truth is at least this.
    value: float
    #: Rows that it rests on: those without a missing sample among the paths asked for.
    rows: int
    #: Rows among these with a lower bound.
    censored: int


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation, and what it is worth."""

    #: −1 to 1.
    coefficient: float
    #: Pairs of samples.
    pairs: int
    #: Independent pairs that they are worth, given the autocorrelation of both series.
    pairs_effective: float
    #: Probability of a coefficient at least this far from 0 without any correlation, two-sided.
    p_value: float


def _rows(samples: ArrayLike, at_least: ArrayLike | None, missing: ArrayLike | None) -> dict[str, Any]:
    np = _input.numpy()
    given = _input.rows("samples", samples)
    states = None
    if at_least is not None or missing is not None:
        states = np.zeros(given.shape, np.uint8)
        if at_least is not None:
            states[_input.flags("at_least", at_least, given.shape).view(bool)] = 1
        if missing is not None:
            states[_input.flags("missing", missing, given.shape).view(bool)] = 2
    if not 1 <= given.shape[1] <= 64:
        raise StatsError(f"samples has {given.shape[1]} paths; give 1 to 64")
    return {"samples": given, "states": states, "paths": given.shape[1]}


def _members(members: Sequence[int] | None, paths: int) -> list[bool]:
    chosen = range(paths) if members is None else members
    for path in chosen:
        if not 0 <= path < paths:
            raise StatsError(f"members has {path}; there are {paths} paths, numbered from 0")
    return [path in chosen for path in range(paths)]


def joint_share(
    samples: ArrayLike, thresholds: ArrayLike, *, at_least: ArrayLike | None = None, missing: ArrayLike | None = None
) -> Share:
    """P(each path reaches its threshold in the same row): with it, a stream that is split at these rates is carried.

    ``thresholds``: shape (paths,), in the unit of the samples, at least 0; a threshold of 0 does not ask the path.
    """
    return Share(**raw.joint_share(_rows(samples, at_least, missing), _input.series("thresholds", thresholds)))


def total_share(
    samples: ArrayLike,
    total: float,
    members: Sequence[int] | None = None,
    *,
    at_least: ArrayLike | None = None,
    missing: ArrayLike | None = None,
) -> Share:
    """P(the paths ``members``, by number from 0, reach ``total`` together); all paths without ``members``."""
    rows = _rows(samples, at_least, missing)
    return Share(**raw.total_share(rows, _members(members, rows["paths"]), float(total)))


def total_quantile(
    samples: ArrayLike,
    p: float,
    members: Sequence[int] | None = None,
    *,
    at_least: ArrayLike | None = None,
    missing: ArrayLike | None = None,
) -> Level:
    """The largest total that the paths ``members`` reach together in at least the share ``p`` of the rows. Needs 1/(1 − p) rows
    without a missing sample."""
    rows = _rows(samples, at_least, missing)
    return Level(**raw.total_quantile(rows, _members(members, rows["paths"]), _input.probability("p", p)))


def split_quantile(
    samples: ArrayLike,
    shares: ArrayLike,
    p: float,
    *,
    at_least: ArrayLike | None = None,
    missing: ArrayLike | None = None,
) -> Level:
    """The largest rate r of which each path carries its part, ``shares[path]`` · r, in at least the share ``p`` of the rows.

    ``shares``: shape (paths,), at least 0, not all 0; they need not add up to 1. Needs 1/(1 − p) rows without a missing sample
    on a path with a share.
    """
    rows = _rows(samples, at_least, missing)
    return Level(**raw.split_quantile(rows, _input.series("shares", shares), _input.probability("p", p)))


def correlation(
    first: ArrayLike, second: ArrayLike, kind: Literal["pearson", "spearman"] = "pearson"
) -> Correlation:
    """The correlation of two series of simultaneous samples, in the order of time; of their ranks with ``spearman``.

    The p-value is that of Student's t with as many pairs as the samples are worth: neighbouring samples of a path resemble each other,
    and would otherwise prove correlations where there are none. Needs 8 pairs, 4 of them effective, and series that vary.
    """
    if kind not in ("pearson", "spearman"):
        raise StatsError(f"kind is {kind!r}; it must be pearson or spearman")
    pair = _input.series("first", first), _input.series("second", second)
    return Correlation(**raw.correlation(*pair, kind == "spearman"))
