"""The library's own statistics on NumPy arrays: what a path can carry, with which probability, from its samples.

They are those with which promises are made (``docs/statistics.md``, ``docs/path-estimators.md``), so that recordings and
simulations can be judged as a running node would judge them. Arrays of 64-bit floating-point numbers are read where they are, without
a copy if they are contiguous, and without the interpreter's lock; others are converted first. What is not a finite number, is
empty, has a wrong shape, or is too little for an estimate raises :class:`anabranch.StatsError`.
"""

from ._distribution import Durable, cdf, durable, partial_mean, quantile, quantile_of_next, rolling_quantile
from ._forecast import Account, Forecast, Score, forecast, score
from ._joint import Correlation, Level, Share, correlation, joint_share, split_quantile, total_quantile, total_share
from ._loss import LossModel, loss_model

__all__ = [
    "Account",
    "Correlation",
    "Durable",
    "Forecast",
    "Level",
    "LossModel",
    "Score",
    "Share",
    "cdf",
    "correlation",
    "durable",
    "forecast",
    "joint_share",
    "loss_model",
    "partial_mean",
    "quantile",
    "quantile_of_next",
    "rolling_quantile",
    "score",
    "split_quantile",
    "total_quantile",
    "total_share",
]
