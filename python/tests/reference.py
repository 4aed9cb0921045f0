"""Forecasts of bandwidth in NumPy, written from the definitions in ``docs/statistics.md`` and the papers named there, not from the
library's code: averages are weighted sums over the whole history, windows are slices, quantiles are interpolations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GOLDEN = (math.sqrt(5) - 1) / 2


def average(values: list[float] | Array, half_life: float) -> float:
    """Mean with weights that halve every ``half_life`` samples; 0 of nothing."""
    if len(values) == 0:
        return 0.0
    weights = 0.5 ** (np.arange(len(values))[::-1] / half_life)
    return float(np.dot(values, weights) / weights.sum())


def next_quantile(values: Array, p: Array) -> Array:
    """The k-th of n values stands at k/(n + 1); down to 0 at 0."""
    if len(values) == 0:
        return np.zeros_like(p)
    places = np.arange(len(values) + 1) / (len(values) + 1)
    found: Array = np.interp(p, places, np.concatenate([[0.0], np.sort(values)]))
    return found


def pinball(promise: Array, outcome: float, level: float) -> Array:
    return np.where(promise > outcome, (promise - outcome) * (1 - level), (outcome - promise) * level)


@dataclass
class Situation:
    """State of a path from which a promise starts."""

    offset: float
    fast: float
    short: float
    level: float
    spread: float
    features: Array


@dataclass
class State:
    """A path's averages."""

    values: list[float] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    distances_short: list[float] = field(default_factory=list)
    features: list[Array] = field(default_factory=list)
    now: Situation | None = None

    def observe(self, value: float) -> None:
        if self.now is not None:
            log = math.log(value + self.now.offset)
            self.distances.append(abs(log - self.now.level))
            self.distances_short.append(abs(log - math.log(self.now.short)))
        self.values.append(value)
        offset = 0.01 * self.usual() + 1
        self.logs.append(math.log(value + offset))
        fast, short, long = (average(self.values, half) + offset for half in (0.3, 2, 10))
        features = np.log([value + offset, short, long, average(self.distances_short, 5) + 0.02])
        self.features.append(features)
        spread = max(average(self.distances, 6), 0.02)
        self.now = Situation(offset, fast, short, average(self.logs, 8), spread, features)

    def usual(self) -> float:
        return average(self.values, 200)

    def precision(self) -> Array:
        history = np.array(self.features)
        found = []
        for column in history.T:
            variance = average(column**2, 300) - average(column, 300) ** 2
            found.append(1 / math.sqrt(max(variance, 1e-4)))
        return np.array(found)


class Experts:
    """Seven distributions of the next outcome."""

    def __init__(self, lags: int) -> None:
        self.kept = 500 * lags
        self.rates: list[float] = []
        self.related: list[tuple[float, float, float]] = []
        #: Situation, rate and ratio by slot, of the last 500.
        self.remembered: dict[int, tuple[Array, float, float]] = {}
        self.learnt = 0

    def known(self) -> int:
        return min(len(self.rates), 500)

    def short_ratios(self) -> Array:
        return np.array([ratio for _, ratio, _ in self.related[-self.kept :]])

    def relate(self, situation: Situation | None, rate: float) -> None:
        if situation is None:
            return
        shifted = rate + situation.offset
        residual = min(max((math.log(shifted) - situation.level) / situation.spread, -300), 300)
        self.related.append((shifted / situation.fast, shifted / situation.short, math.exp(residual)))

    def learn(self, situation: Situation | None, rate: float) -> None:
        self.rates.append(rate)
        if situation is None:
            return
        ratio = (rate + situation.offset) / situation.short
        self.remembered[self.learnt % 500] = (situation.features, rate, ratio)
        self.learnt += 1

    def quantiles(self, now: Situation, precision: Array, p: Array) -> Array:
        """Shape (experts, levels)."""
        related = np.array(self.related[-self.kept :]).reshape(-1, 3)
        fast, short, residual = related.T
        slots = sorted(self.remembered)
        features = np.array([self.remembered[slot][0] for slot in slots])
        distance = (((features - now.features) * precision) ** 2).sum(axis=1)
        count = len(slots)
        reach = np.sort(distance)[min(max(int(0.08 * count), 10), count - 1)]
        weights = np.maximum(1 - distance / (3 * max(reach, 1e-9)), 0) ** 2
        like = [np.array([self.remembered[slot][which] for slot in slots]) for which in (1, 2)]
        with np.errstate(divide="ignore"):
            residuals = np.log(next_quantile(residual, p))
        rows = [
            next_quantile(np.array(self.rates[-60:]), p),
            next_quantile(np.array(self.rates[-500:]), p),
            next_quantile(fast, p) * now.fast - now.offset,
            next_quantile(short, p) * now.short - now.offset,
            np.exp(now.level + residuals * now.spread) - now.offset,
            weighted_quantiles(like[0], weights, p),
            weighted_quantiles(like[1], weights, p) * now.short - now.offset,
        ]
        found: Array = np.clip(rows, 0, max(self.rates[-500:]))
        return found


def weighted_quantiles(values: Array, weights: Array, p: Array) -> Array:
    """The i-th value stands at the weight below it, and half of its own and of one effective sample."""
    total = weights.sum()
    if total <= 0:
        return np.zeros_like(p)
    single = (weights**2).sum() / total
    order = np.argsort(values, kind="stable")
    order = order[weights[order] > 1e-9 * single]
    chosen = weights[order]
    places = np.cumsum(chosen) - chosen + 0.5 * (chosen + single)
    found: Array = np.interp(p * (total + single), np.concatenate([[0], places]), np.concatenate([[0], values[order]]))
    return found


@dataclass
class ErrorSum:
    stop: float
    value: float = 0.0
    reserve: float = 0.0

    def enter(self, error: float, share: float, trivial: bool) -> None:
        self.value += error
        if trivial and self.value < -self.stop:
            self.reserve = min(self.reserve - self.stop - self.value, 1000)
            self.value = -self.stop
        elif not trivial and self.value > -self.stop:
            spent = min((0.01 + 0.00025 * self.reserve) * share, self.reserve)
            self.reserve -= spent
            self.value -= spent
        self.value = min(max(self.value, -50), 50)


class Whole:
    """Level of promises that are judged as a whole."""

    def __init__(self, target: float, hold: int) -> None:
        self.target, self.share = target, hold**-0.7
        self.sum, self.recent = ErrorSum(5), 0.0

    def level(self, phase: int) -> float:
        turn = 0.9 * math.tan(min(max(self.sum.value / 3, -1.4), 1.4))
        return min(max(self.target * math.exp(-turn - 0.3 * self.recent), 1e-4), 0.9)

    def learn(self, broken: bool, trivial: bool) -> None:
        error = (broken - self.target) * self.share
        self.recent = self.recent * 0.8**self.share + error
        self.sum.enter(error, self.share, trivial)


class Each:
    """Level of promises of which each sample is judged."""

    def __init__(self, target: float, hold: int) -> None:
        self.target, self.recent = target, 0.0
        self.sums = [ErrorSum(1.5) for _ in range(hold)]

    def level(self, phase: int) -> float:
        mean = sum(one.value for one in self.sums) / len(self.sums)
        error = 0.6 * self.sums[phase].value + 0.4 * mean
        level = (self.target - error / (3 * (self.target / 0.1) ** -0.3)) * math.exp(-0.3 * self.recent)
        found: float = min(max(level, 0.05 * self.target), self.target + 0.4 * (1 - self.target))
        return found


@dataclass
class Standing:
    """Promises made at one time."""

    situation: Situation | None
    promises: Array | None
    answers: Array | None
    broken: set[int] = field(default_factory=set)
    seen: list[tuple[float, bool, float | None]] = field(default_factory=list)


def forecast(
    samples: Array, levels: list[float], hold: int = 1, each: bool = False, bounds: Array | None = None
) -> tuple[Array, list[list[int]]]:
    """Promises before each sample and after the last, shape (samples + 1, levels), and counts kept, broken, unknown."""
    lags = 3 if each else 1
    state, experts = State(), Experts(lags)
    whole = [Whole(1 - p, hold) for p in levels]
    terms = [Each(1 - p, hold) for p in levels]
    losses, weight = np.zeros((len(levels), 7)), np.zeros(len(levels))
    counts = [[0, 0, 0] for _ in levels]
    golden = lag = 0.0
    standing: list[Standing] = []
    made = 0
    rows = [np.full(len(levels), np.nan)]

    def weigh(index: int, answers: Array, outcomes: list[float]) -> None:
        if outcomes:
            loss = np.mean([pinball(answers[:, index], outcome, 1 - levels[index]) for outcome in outcomes], axis=0)
            losses[index] = losses[index] * 0.995 + loss
            weight[index] = weight[index] * 0.995 + 1

    for t, rate in enumerate(np.round(samples)):
        bound = bool(bounds is not None and bounds[t])
        value: float | None = float(rate)
        if bound:
            ratios, now = experts.short_ratios(), state.now
            value = None
            if len(ratios) and now is not None:
                below = float(np.mean(ratios < (rate + now.offset) / now.short))
                if below >= 0.05:
                    golden = (golden + GOLDEN) % 1
                    rank = math.ceil((below + golden * (1 - below)) * len(ratios) - 1e-9)
                    drawn = np.sort(ratios)[min(max(rank, 1), len(ratios)) - 1]
                    value = max(float(drawn) * now.short - now.offset, float(rate))
        for one in standing:
            one.seen.append((float(rate), bound, value))
        done = standing.pop(0) if len(standing) == hold else None
        if each:
            promised = [one for one in [*([done] if done else []), *standing] if one.promises is not None]
            if promised and not bound:
                for index, calibrator in enumerate(terms):
                    share = np.mean([rate < one.promises[index] for one in promised if one.promises is not None])
                    calibrator.recent = calibrator.recent * 0.8 + float(share) - calibrator.target
            if value is not None:
                alive = [*([done] if done else []), *standing]
                for number in range(lags):
                    lag = (lag + GOLDEN) % 1
                    if alive:
                        seen_from = alive[-1 - int(lag * len(alive))].situation
                        if number == 0:
                            experts.learn(seen_from, value)
                        experts.relate(seen_from, value)
            if done is not None and done.promises is not None and done.answers is not None:
                for index, calibrator in enumerate(terms):
                    promise = done.promises[index]
                    kept = sum(was >= promise for was, _, _ in done.seen)
                    unknown = sum(was < promise and is_bound for was, is_bound, _ in done.seen)
                    broken = hold - kept - unknown
                    for place, number in enumerate((kept, broken, unknown)):
                        counts[index][place] += number
                    known = (kept + broken) / hold
                    error = broken / hold - calibrator.target * known
                    calibrator.sums[made % hold].enter(error, known, promise <= 0)
                    weigh(index, done.answers, [was for _, _, was in done.seen if was is not None])
        else:
            # The newest promises first; the order among them matters to the recent errors.
            for one in [*reversed(standing), *([done] if done else [])]:
                if one.promises is None or bound:
                    continue
                for index in range(len(levels)):
                    if rate < one.promises[index] and index not in one.broken:
                        one.broken.add(index)
                        counts[index][1] += 1
                        whole[index].learn(True, False)
            if done is not None:
                values = [was for _, _, was in done.seen if was is not None]
                least_bound = min((was for was, is_bound, _ in done.seen if is_bound), default=math.inf)
                if done.promises is not None and done.answers is not None:
                    for index in range(len(levels)):
                        promise = done.promises[index]
                        if index not in done.broken and least_bound < promise:
                            counts[index][2] += 1
                        elif index not in done.broken:
                            counts[index][0] += 1
                            whole[index].learn(False, promise <= 0)
                        weigh(index, done.answers, [min(values)] if values else [])
                if values:
                    experts.learn(done.situation, min(values))
                    experts.relate(done.situation, min(values))
        if value is not None:
            state.observe(value)
        promises = answers = None
        now = state.now
        if experts.known() >= 20 and now is not None:
            calibrators = terms if each else whole
            asked = np.array([calibrator.level(made % hold) for calibrator in calibrators])
            answers = experts.quantiles(now, state.precision(), asked)
            promises = np.zeros(len(levels))
            least = math.inf
            for index in range(len(levels)):
                total = losses[index].sum()
                scale = weight[index] * 7 / total if total > 0 else 0.0
                weights = np.exp(-(losses[index] - losses[index].min()) * scale)
                mixed = float(np.dot(weights, answers[:, index]) / weights.sum())
                least = min(least, 0.0 if mixed < 0.03 * state.usual() else math.floor(mixed))
                promises[index] = least
        standing.append(Standing(now, promises, answers))
        made += 1
        row = np.full(len(levels), np.nan)
        for index, p in enumerate(levels):
            if promises is not None and experts.known() >= 1 / (1 - p) - 1e-6:
                row[index] = promises[index]
        rows.append(row)
    return np.array(rows), counts
