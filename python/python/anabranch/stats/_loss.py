"""Models of packet losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .. import _anabranch as raw
from ..errors import StatsError
from . import _input

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class LossModel:
    """The Gilbert–Elliott model: a good and a bad state, with a probability of loss in each."""

    #: P(good → bad), for each packet.
    good_to_bad: float
    #: P(bad → good), for each packet; its inverse is the mean length of a bad spell in packets.
    bad_to_good: float
    #: P(lost) in the good state.
    loss_good: float
    #: P(lost) in the bad state.
    loss_bad: float
    #: Share of packets lost over a long time.
    rate: float
    #: Correlation of the outcomes of neighbouring packets.
    correlation: float


def loss_model(lost: ArrayLike, method: Literal["simple", "gilbert", "likeliest"] = "simple") -> LossModel:
    """The model of outcomes in the order of sending: shape (packets,), booleans, true for lost.

    ``simple``: the good state loses nothing and the bad one everything; exact counts of transitions. ``gilbert``: the bad
    state loses some, by Gilbert's moments. ``likeliest``: all four parameters by Baum and Welch's iteration. Too few losses or
    arrivals, and outcomes that no such model explains, are errors.
    """
    outcomes = _input.numpy().asarray(lost)
    if outcomes.ndim != 1:
        raise StatsError(f"lost has the shape {outcomes.shape}; it must have one dimension")
    return LossModel(**raw.loss_model(_input.flags("lost", outcomes, outcomes.shape), method))
