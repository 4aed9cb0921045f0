"""Statistics of the library against their definitions in NumPy, over random inputs."""

from __future__ import annotations

import math
import threading
import unittest
from typing import Any

import numpy as np
from anabranch import StatsError, stats

Array = np.ndarray[Any, Any]
SEEDS = range(40)


def samples(rng: Any) -> Array:
    """Random samples, some with ties."""
    count = int(rng.integers(1, 300))
    drawn = rng.lognormal(1.0, 1.0, count)
    result: Array = np.round(drawn, int(rng.integers(0, 3))) if rng.random() < 0.5 else drawn
    return result


class Distribution(unittest.TestCase):
    def test_quantiles(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            given = samples(rng)
            # Not at the steps themselves, where rounding decides.
            p = rng.random(20)
            by_definition = [min(b for b in given if np.mean(given <= b) >= level) for level in p]
            np.testing.assert_array_equal(stats.quantile(given, p), by_definition)
            np.testing.assert_array_equal(stats.quantile(given, p), np.quantile(given, p, method="inverted_cdf"))
            self.assertEqual(stats.quantile(given, 0.0), given.min())
            self.assertEqual(stats.quantile(given, 1.0), given.max())
        self.assertEqual(stats.quantile(np.arange(1.0, 101.0), 0.05), 5.0, "0.05 of 100 is 5, whatever floats say")

    def test_quantiles_of_the_next_sample(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            given = samples(rng)
            p = rng.random((4, 5))
            places = np.arange(len(given) + 1) / (len(given) + 1)
            expected = np.interp(p, places, np.concatenate([[0.0], np.sort(given)]))
            np.testing.assert_allclose(stats.quantile_of_next(given, p), expected, rtol=1e-12, atol=1e-12)

    def test_rolling_quantiles(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            given, count, p = samples(rng), int(rng.integers(1, 60)), float(rng.random())
            for of_next, one in ((False, stats.quantile), (True, stats.quantile_of_next)):
                found = stats.rolling_quantile(given, count, p, of_next=of_next)
                expected = [
                    one(given[t + 1 - count : t + 1], p) if t + 1 >= count else math.nan for t in range(len(given))
                ]
                np.testing.assert_array_equal(found, expected)

    def test_shares_and_partial_means(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            given = samples(rng)
            bounds = rng.choice(given, 5)
            np.testing.assert_allclose(stats.cdf(given, bounds), [np.mean(given <= b) for b in bounds])
            means = [given[given <= b].sum() / len(given) for b in bounds]
            np.testing.assert_allclose(stats.partial_mean(given, bounds), means)
            self.assertIsInstance(stats.cdf(given, float(bounds[0])), float)

    def test_durable_promises(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            history = rng.lognormal(2.0, 0.5, int(rng.integers(40, 400)))
            p = float(rng.uniform(0.5, 0.99))
            found = stats.durable(history, p)

            def kept(part: Array, p: float = p) -> float:
                """The largest rate that the share p reaches."""
                return float(max(rate for rate in part if np.mean(part >= rate) >= p - 1e-12))

            def promise(part: Array, p: float = p) -> float:
                return min(float(stats.quantile_of_next(part, (1 - p) / 2)), 0.75 * kept(part))

            self.assertAlmostEqual(found.kept_rate, kept(history))
            self.assertAlmostEqual(found.rate, promise(history))
            parts = [
                history[start : start + size]
                for size in (math.ceil(len(history) / 2), math.ceil(len(history) / 4))
                for start in range(0, len(history), size)
            ]
            falls = [1 - kept(part) / kept(history) for part in parts]
            most: float = max([0.0, *falls])
            self.assertAlmostEqual(found.drift, most)
            half = len(history) // 2
            first, second = history[:half], history[half:]
            broken = [np.mean(part < found.rate) for part in parts]
            broken += [np.mean(second < promise(first)), np.mean(first < promise(second))]
            self.assertAlmostEqual(found.broken_over_allowed, float(max(broken)) / (1 - p))
            since = rng.lognormal(1.8, 0.5, 60)
            self.assertAlmostEqual(found.drift_to(since), 1 - kept(since) / found.kept_rate)


class Joint(unittest.TestCase):
    def rows(self, rng: Any) -> tuple[Array, Array, Array]:
        """Samples, and whether each is a lower bound or missing."""
        shape = int(rng.integers(20, 120)), int(rng.integers(1, 6))
        given = rng.lognormal(1.0, 0.7, shape)
        bounds = rng.random(shape) < rng.choice([0.0, 0.2])
        missing = (rng.random(shape) < rng.choice([0.0, 0.1])) & ~bounds
        return given, bounds, missing

    def test_shares(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            given, bounds, missing = self.rows(rng)
            exact = ~bounds & ~missing
            thresholds = rng.uniform(0, 3, given.shape[1]) * (rng.random(given.shape[1]) < 0.7)
            reaches = (given >= thresholds) & ~missing | (thresholds == 0)
            fails = exact & (given < thresholds)
            found = stats.joint_share(given, thresholds, at_least=bounds, missing=missing)
            self.assertAlmostEqual(found.low, reaches.all(axis=1).mean())
            self.assertAlmostEqual(found.high, (~fails.any(axis=1)).mean())
            self.assertEqual(found.rows, len(given))

            members = sorted(rng.choice(given.shape[1], int(rng.integers(1, given.shape[1] + 1)), replace=False).tolist())
            total = float(rng.uniform(0, 8))
            sums = np.where(missing, 0, given)[:, members].sum(axis=1)
            is_open = ~exact[:, members].all(axis=1)
            together = stats.total_share(given, total, members, at_least=bounds, missing=missing)
            self.assertAlmostEqual(together.low, (sums >= total).mean())
            self.assertAlmostEqual(together.high, ((sums >= total) | is_open).mean())

    def test_quantiles(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            given, bounds, missing = self.rows(rng)
            p = float(rng.uniform(0.5, 0.9))

            def largest(values: Array, p: float = p) -> float:
                """The largest value that at least the share p reaches."""
                return float(max(value for value in values if np.mean(values >= value) >= p - 1e-9))

            whole = ~missing.any(axis=1)
            found = stats.total_quantile(given, p, at_least=bounds, missing=missing)
            self.assertAlmostEqual(found.value, largest(given[whole].sum(axis=1)))
            self.assertEqual((found.rows, found.censored), (whole.sum(), bounds[whole].any(axis=1).sum()))

            shares = rng.random(given.shape[1]) * (rng.random(given.shape[1]) < 0.7)
            shares[0] = 0.5
            used = shares > 0
            whole = ~missing[:, used].any(axis=1)
            rates = (given[:, used] / shares[used]).min(axis=1)[whole]
            split = stats.split_quantile(given, shares, p, at_least=bounds, missing=missing)
            self.assertAlmostEqual(split.value, largest(rates))
            self.assertEqual(split.rows, whole.sum())
            # It is the rate at which that split is carried with that probability.
            if not missing.any():
                share = stats.joint_share(given, shares * split.value * (1 - 1e-12), at_least=bounds)
                self.assertGreaterEqual(share.low, p - 1e-9)

    def test_correlations(self) -> None:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            count, shared = int(rng.integers(30, 250)), float(rng.uniform(-1, 1))
            first = np.convolve(rng.normal(size=count + 4), np.ones(int(rng.integers(1, 5))), "valid")[:count]
            second = shared * first + rng.normal(size=count)
            for kind in ("pearson", "spearman"):
                found = stats.correlation(first, second, kind)
                x, y = (first, second) if kind == "pearson" else (ranks(first), ranks(second))
                self.assertAlmostEqual(found.coefficient, np.corrcoef(x, y)[0, 1])
                x, y = x - x.mean(), y - y.mean()
                products = [
                    np.dot(x[: count - k], x[k:]) * np.dot(y[: count - k], y[k:]) * count / (count - k)
                    for k in range(1, count // 5 + 1)
                ]
                effective = count / (1 + 2 * max(0.0, sum(products) / (np.dot(x, x) * np.dot(y, y))))
                self.assertAlmostEqual(found.pairs_effective, effective)
                self.assertAlmostEqual(found.p_value, student(found.coefficient, effective - 2), places=6)

    def test_random_numbers_of_two_paths_are_rarely_correlated(self) -> None:
        rng = np.random.default_rng(0)
        low = sum(stats.correlation(*rng.normal(size=(2, 100))).p_value < 0.05 for _ in range(400))
        self.assertTrue(8 <= low <= 36, f"{low} of 400")


def ranks(values: Array) -> Array:
    """Ranks from 1; ties share their mean."""
    result: Array = np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])
    return result


def student(coefficient: float, freedom: float) -> float:
    """Two-sided p-value: the density of Student's t integrated from the statistic on, with x = tan θ."""
    statistic = abs(coefficient) * math.sqrt(freedom / (1 - coefficient**2))
    angles = np.linspace(math.atan(statistic / math.sqrt(freedom)), math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    steps = np.diff(angles)
    return float(2 * scale * np.sum((density[1:] + density[:-1]) / 2 * steps))


class Losses(unittest.TestCase):
    def draw(self, rng: Any, count: int, to_bad: float, to_good: float, good: float, bad: float) -> Array:
        is_bad, lost = False, []
        for turn, loss in rng.random((count, 2)):
            is_bad = (turn >= to_good) if is_bad else (turn < to_bad)
            lost.append(loss < (bad if is_bad else good))
        return np.array(lost)

    def test_the_simple_model_counts_transitions(self) -> None:
        for seed in range(10):
            lost = self.draw(np.random.default_rng(seed), 3000, 0.03, 0.3, 0.0, 1.0)
            before, after = lost[:-1], lost[1:]
            model = stats.loss_model(lost)
            self.assertAlmostEqual(model.good_to_bad, (~before & after).sum() / (~before).sum())
            self.assertAlmostEqual(model.bad_to_good, (before & ~after).sum() / before.sum())
            self.assertEqual((model.loss_good, model.loss_bad), (0.0, 1.0))
            self.assertAlmostEqual(model.rate, model.good_to_bad / (model.good_to_bad + model.bad_to_good))

    def test_gilberts_moments(self) -> None:
        lost = self.draw(np.random.default_rng(3), 30_000, 0.02, 0.2, 0.0, 0.6)
        a = lost.mean()
        b = (lost[:-1] & lost[1:]).sum() / lost[:-1].sum()
        ends = lost[:-2] & lost[2:]
        c = (ends & lost[1:-1]).sum() / ends.sum()
        stays = (a * c - b**2) / (2 * a * c - b * (a + c))
        model = stats.loss_model(lost, "gilbert")
        self.assertAlmostEqual(model.bad_to_good, 1 - stays, delta=2e-3)
        self.assertAlmostEqual(model.loss_bad, b / stays, delta=2e-3)

    def likelihood(self, lost: Array, model: stats.LossModel) -> float:
        """Logarithm of the probability of the outcomes, by the scaled forward algorithm."""
        bad = model.good_to_bad / (model.good_to_bad + model.bad_to_good)
        state = np.array([1 - bad, bad])
        turn = np.array([[1 - model.good_to_bad, model.good_to_bad], [model.bad_to_good, 1 - model.bad_to_good]])
        loss = np.array([model.loss_good, model.loss_bad])
        total = 0.0
        for outcome in lost:
            state = state * (loss if outcome else 1 - loss)
            total += math.log(state.sum())
            state = state / state.sum() @ turn
        return total

    def test_the_likeliest_model(self) -> None:
        lost = self.draw(np.random.default_rng(5), 4000, 0.02, 0.15, 0.01, 0.6)
        found = stats.loss_model(lost, "likeliest")
        best = self.likelihood(lost, found)
        names = ("good_to_bad", "bad_to_good", "loss_good", "loss_bad")
        for name in names:
            for factor in (0.9, 1.1):
                parts = {key: getattr(found, key) for key in names}
                parts[name] = min(parts[name] * factor, 1.0)
                other = stats.LossModel(**parts, rate=0.0, correlation=0.0)
                self.assertLess(self.likelihood(lost, other), best + 0.05, (name, factor))
        self.assertGreater(best, self.likelihood(lost, stats.loss_model(lost[:2000], "likeliest")) - 1e-6)


class Arguments(unittest.TestCase):
    def test_what_is_refused(self) -> None:
        good = np.arange(1.0, 101.0)
        table = good.reshape(50, 2)
        hole = table.copy()
        hole[3, 1] = np.nan
        cases: list[tuple[str, Any]] = [
            ("samples: there are none", lambda: stats.quantile([], 0.5)),
            ("samples: item 1 is NaN", lambda: stats.quantile([1.0, math.nan], 0.5)),
            ("samples: item 0 is inf", lambda: stats.cdf([math.inf], 0.5)),
            (r"samples has the shape \(50, 2\)", lambda: stats.quantile(table, 0.5)),
            (r"samples has the shape \(\)", lambda: stats.quantile(3.0, 0.5)),
            ("p: 1.5 is not within 0 to 1", lambda: stats.quantile(good, 1.5)),
            ("p: nan", lambda: stats.quantile(good, math.nan)),
            ("item 0 is -1; it must be finite and at least 0", lambda: stats.quantile_of_next([-1.0], 0.5)),
            ("dtype <U1", lambda: stats.quantile(["a"], 0.5)),
            ("dtype bool", lambda: stats.quantile([True], 0.5)),
            ("dtype object", lambda: stats.quantile([None], 0.5)),  # type: ignore[arg-type]
            ("count is 0", lambda: stats.rolling_quantile(good, 0, 0.5)),
            ("needs at least 40", lambda: stats.durable(good[:39], 0.9)),
            ("p is 1.0", lambda: stats.durable(good, 1.0)),
            ("samples: there are none", lambda: stats.durable(good, 0.9).drift_to([])),
            ("row 3 has NaN.*missing", lambda: stats.joint_share(hole, [1.0, 1.0])),
            ("two dimensions", lambda: stats.joint_share(good, [1.0])),
            ("thresholds has 3 entries, expected 2", lambda: stats.joint_share(table, [1.0, 1.0, 1.0])),
            ("threshold is -1", lambda: stats.joint_share(table, [-1.0, 1.0])),
            ("samples has 65 paths", lambda: stats.joint_share(np.ones((3, 65)), np.ones(65))),
            ("numbered from 0", lambda: stats.total_share(table, 1.0, [2])),
            ("at least one channel", lambda: stats.total_share(table, 1.0, [])),
            ("needs at least 100", lambda: stats.total_quantile(table, 0.99)),
            ("shares is 0; it must be set for at least one", lambda: stats.split_quantile(table, [0.0, 0.0], 0.5)),
            ("needs at least 8", lambda: stats.correlation(good[:7], good[:7])),
            ("all samples are equal", lambda: stats.correlation(good, np.ones(100))),
            ("second series has 99", lambda: stats.correlation(good, good[:99])),
            ("kind is 'kendall'", lambda: stats.correlation(good, good, "kendall")),  # type: ignore[arg-type]
            ("lost has the dtype float64", lambda: stats.loss_model(good)),
            ("needs at least 10", lambda: stats.loss_model(np.zeros(1000, bool))),
            ("method: 'best'", lambda: stats.loss_model(np.zeros(9, bool), "best")),  # type: ignore[arg-type]
            (r"missing has the dtype bool and the shape \(2, 50\)", lambda: stats.joint_share(
                table, [1.0, 1.0], missing=np.zeros((2, 50), bool))),
        ]  # fmt: skip
        for text, call in cases:
            with self.subTest(text), self.assertRaisesRegex(StatsError, text):
                call()
        share = stats.joint_share(hole, [1.0, 1.0], missing=np.isnan(hole))
        self.assertEqual((share.low, share.high), (0.98, 1.0))

    def test_other_arrays_are_converted(self) -> None:
        whole = np.arange(1, 201, dtype=np.int32)
        expected = stats.quantile(whole.astype(float), 0.3)
        for given in (whole, whole.astype(np.float32), whole.astype(">f8"), list(range(1, 201))):
            self.assertEqual(stats.quantile(given, 0.3), expected)
        strided = np.repeat(whole.astype(float), 3)[::3]
        self.assertEqual(stats.quantile(strided, 0.3), expected)
        readonly = whole.astype(float)
        readonly.flags.writeable = False
        self.assertEqual(stats.quantile(readonly, 0.3), expected)

    def test_other_threads_run_meanwhile(self) -> None:
        """A computation of half a second or so does not hold the interpreter's lock: a thread that wakes up every millisecond does
        so many times meanwhile, and a few times at most if it did. On a busy machine, in one of several attempts."""
        values = np.random.default_rng(1).lognormal(15.0, 1.0, 60_000)
        over = threading.Event()
        turns = 0

        def count() -> None:
            nonlocal turns
            while not over.wait(0.001):
                turns += 1

        thread = threading.Thread(target=count)
        thread.start()
        try:
            for _ in range(20):
                before = turns
                stats.forecast(values)
                if turns - before > 30:
                    return
            self.fail("no other thread ran")
        finally:
            over.set()
            thread.join()


if __name__ == "__main__":
    unittest.main()
