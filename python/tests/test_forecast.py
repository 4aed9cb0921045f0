"""Forecasts of the library against those of an independent implementation in NumPy."""

from __future__ import annotations

import unittest
from typing import Any, Literal

import numpy as np
from anabranch import StatsError, stats

from . import reference

Array = np.ndarray[Any, Any]


def series(seed: int, count: int, kind: str) -> Array:
    """A path's rates in bit/s."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 0.3, count)
    level = np.zeros(count)
    for t in range(1, count):
        level[t] = 0.9 * level[t - 1] + noise[t]
    rates = 8e6 * np.exp(level)
    if kind == "outages":
        rates[rng.random(count) < 0.05] = 0.0
        rates[count // 2 : count // 2 + 40] = 0.0
    elif kind == "steps":
        rates *= np.where(np.arange(count) // 70 % 2 == 0, 1.0, 0.2)
    elif kind == "constant":
        rates[:] = 8e6
    return rates


class Forecasts(unittest.TestCase):
    LEVELS = [0.5, 0.75, 0.9, 0.95, 0.99]

    def agree(
        self,
        samples: Array,
        levels: list[float],
        hold: int = 1,
        judged: Literal["whole", "each"] = "whole",
        bounds: Array | None = None,
        is_exact: bool = True,
    ) -> None:
        found = stats.forecast(samples, levels, hold=hold, judged=judged, at_least=bounds)
        rows, counts = reference.forecast(samples, levels, hold, judged == "each", bounds)
        self.assertEqual(found.promises.shape, (len(samples) + 1, len(levels)))
        # Both round down to whole bit/s.
        np.testing.assert_allclose(found.promises, rows, rtol=1e-7 if is_exact else 0.02, atol=1.001)
        accounts = [[account.kept, account.broken, account.unknown] for account in found.accounts]
        np.testing.assert_allclose(accounts, counts, atol=0 if is_exact else 3)
        self.assertGreater(sum(kept for kept, _, _ in counts), 0)

    def test_promises_for_the_next_sample(self) -> None:
        for seed, kind in enumerate(("plain", "outages", "steps", "constant")):
            with self.subTest(kind):
                self.agree(series(seed, 400, kind), self.LEVELS)

    def test_more_samples_than_are_remembered(self) -> None:
        self.agree(series(7, 720, "steps"), [0.9, 0.99])

    def test_promises_that_stand_for_several_samples(self) -> None:
        for seed, hold in ((10, 2), (11, 5), (12, 10)):
            with self.subTest(hold):
                self.agree(series(seed, 300, "outages"), [0.5, 0.9, 0.95], hold)

    def test_promises_judged_by_each_sample(self) -> None:
        for seed, hold, kind in ((20, 1, "plain"), (21, 4, "outages"), (22, 10, "steps")):
            with self.subTest(hold):
                self.agree(series(seed, 300, kind), [0.5, 0.9, 0.95], hold, "each")

    def test_lower_bounds(self) -> None:
        for seed, judged in ((30, "whole"), (31, "each")):
            for hold in (1, 2, 4):
                with self.subTest(judged, hold=hold):
                    rng = np.random.default_rng(seed)
                    samples = series(seed, 300, "plain")
                    bounds = rng.random(300) < 0.3
                    samples[bounds] *= rng.random(int(bounds.sum()))
                    # Before the first sample, and after bounds alone, an outcome has nothing to be related to.
                    bounds[:4] = [True, True, False, True]
                    # With hold 1, a bound is taken for a ratio that was seen already. Which of two equal ratios comes first is
                    # up to the rounding of averages, and their weights differ.
                    self.agree(samples, [0.75, 0.95], hold, judged, bounds, hold > 1)  # type: ignore[arg-type]

    def test_random_levels_and_series(self) -> None:
        for seed in range(100, 112):
            rng = np.random.default_rng(seed)
            levels = sorted(set(np.round(rng.uniform(0.5, 0.99, 3), 3).tolist()))
            kind = str(rng.choice(["plain", "outages", "steps"]))
            hold = int(rng.integers(1, 7))
            judged: Literal["whole", "each"] = "each" if rng.random() < 0.5 else "whole"
            with self.subTest(seed=seed, kind=kind, hold=hold, judged=judged):
                self.agree(series(seed, int(rng.integers(60, 260)), kind), levels, hold, judged)

    def test_the_share_kept_is_the_one_promised(self) -> None:
        samples = series(40, 6000, "steps")
        found = stats.forecast(samples, (0.9, 0.95))
        for level, account in zip(found.levels, found.accounts):
            self.assertAlmostEqual(account.kept / (account.kept + account.broken), level, delta=0.01)
        promises = found.at(0.95)
        known = ~np.isnan(promises)
        score = stats.score(promises[known], samples[known], 0.95)
        self.assertAlmostEqual(score.kept_share, 0.95, delta=0.01)
        self.assertEqual(found.next.shape, (2,))

    def test_what_is_refused(self) -> None:
        good = series(1, 50, "plain")
        bad = good.copy()
        bad[17] = np.nan
        cases: list[tuple[str, Any]] = [
            ("samples: item 17 is NaN.*leave out", lambda: stats.forecast(bad)),
            (r"samples has the shape \(2, 25\)", lambda: stats.forecast(good.reshape(2, 25))),
            ("item 0 is -8", lambda: stats.forecast([-8.0])),
            ("samples: item 0 is 1000000000000000000", lambda: stats.forecast([1e18])),
            ("a level of 0.3", lambda: stats.forecast(good, 0.3)),
            ("levels must increase", lambda: stats.forecast(good, (0.9, 0.5))),
            ("held for 61", lambda: stats.forecast(good, hold=61)),
            ("held for 0", lambda: stats.forecast(good, hold=0)),
            ("hold is -1", lambda: stats.forecast(good, hold=-1)),
            ("judged is 'all'", lambda: stats.forecast(good, judged="all")),  # type: ignore[arg-type]
            ("0 levels", lambda: stats.forecast(good, ())),
            ("dtype complex128", lambda: stats.forecast(good.astype(complex))),
            ("at_least has the dtype float64", lambda: stats.forecast(good, at_least=good)),
            ("p is 0.8; the levels are 0.9", lambda: stats.forecast(good, 0.9).at(0.8)),
            ("1 promises and 2 outcomes", lambda: stats.score([1.0], [1.0, 2.0], 0.9)),
        ]
        for text, call in cases:
            with self.subTest(text), self.assertRaisesRegex(StatsError, text):
                call()
        self.assertTrue(np.isnan(stats.forecast([]).next).all(), "nothing is promised of nothing")


if __name__ == "__main__":
    unittest.main()
