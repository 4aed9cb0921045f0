"""Experiments of the lab, from the program of the wheel."""

from __future__ import annotations

import asyncio
import csv
import math
import os
import tempfile
import unittest
from pathlib import Path

from anabranch import LabError, lab

from .support import LIMIT, run


def recording(folder: str) -> Path:
    """Round trips of a path, two minutes of them."""
    file = Path(folder) / "path.csv"
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["t_s", "bandwidth_bps", "rtt_ms", "loss"])
        for second in range(120):
            writer.writerow([second, int(5e6 + 2e6 * math.sin(second / 9)), 40 + second % 7, 0.0])
    return file


class Experiments(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_experiments_are_listed(self) -> None:
        by_name = {one.name: one for one in lab.experiments()}
        self.assertGreater(len(by_name), 30)
        self.assertTrue(by_name["smartpointer"].takes_recordings)
        self.assertIn("IQ-Paths", by_name["smartpointer"].summary)
        self.assertFalse(by_name["pairs"].runs_live)

    def test_figures_of_runs(self) -> None:
        lines: list[str] = []
        result = lab.run("horde-rtt", traces=recording(self.folder), seed=3, seeds=2, progress=lines.append, out=self.folder)
        self.assertEqual((result.experiment, result.seeds), ("horde-rtt", [3, 4]))
        self.assertEqual(len(result.traces), 1)
        self.assertTrue(any("horde-rtt" in line for line in lines), lines)
        self.assertIn("path", result.kinds)
        self.assertEqual({row["seed"] for row in result.rows}, {3, 4})
        rows = result.select("path")
        array = result.array("path")
        self.assertEqual(array.shape, (len(rows),))
        for name in array.dtype.names or ():
            for row, value in zip(rows, array[name]):
                if isinstance(row.get(name), int | float):
                    self.assertEqual(row[name], value)
                elif row.get(name) is None and array.dtype[name].kind == "f":
                    self.assertTrue(math.isnan(value))
        self.assertGreater(len(result.array()), len(array) - 1)
        self.assertTrue((Path(self.folder) / "horde-rtt.csv").is_file(), "settings are flags of the program")
        again = lab.run("horde-rtt", traces=[Path(self.folder) / "path.csv"], seed=3, seeds=2)
        self.assertEqual(again.rows, result.rows, "the same seeds give the same figures")
        with self.assertRaisesRegex(LabError, "no rows of the kind 'cars'; it has path"):
            result.select("cars")

    def test_data_frames(self) -> None:
        try:
            import pandas
        except ImportError:
            self.skipTest("there is no pandas")
        result = lab.run("horde-rtt", traces=recording(self.folder))
        self.assertIsInstance(result.figures, pandas.DataFrame)
        self.assertEqual(len(result.figures), len(result.rows))
        self.assertEqual(set(result.frame("path")["kind"]), {"path"})

    def test_data_frames_without_pandas(self) -> None:
        code, out, err = run("""
import sys
sys.modules["pandas"] = None
from anabranch.lab import Result
result = Result("x", "0", [1], [], [{"seed": 1, "a": 2.0}, {"seed": 1, "b": "c"}])
try:
    result.figures
except ImportError as error:
    print(error)
table = result.array()
assert table["a"][0] == 2.0 and table["a"][1] != table["a"][1] and table["b"].tolist() == ["", "c"], table
""")
        self.assertEqual(code, 0, err)
        self.assertIn("pip install 'anabranch[pandas]'", out)

    def test_errors_are_those_of_the_program(self) -> None:
        with self.assertRaisesRegex(LabError, "there is no experiment 'nope'; choose one of") as failed:
            lab.run("nope")
        self.assertEqual(failed.exception.code, 2)
        with self.assertRaisesRegex(LabError, "runs on no recordings"):
            lab.run("pairs", traces="x.csv")
        with self.assertRaisesRegex(LabError, "speed"):
            lab.run("pairs", speed=3)
        with self.assertRaisesRegex(LabError, "not the name"):
            lab.run("--help")
        with self.assertRaisesRegex(TypeError, "json"):
            lab.run("pairs", json="x")

    def test_an_exception_in_progress_ends_the_program(self) -> None:
        def fail(line: str) -> None:
            raise ZeroDivisionError

        before = children()
        with self.assertRaises(ZeroDivisionError):
            lab.run("horde-e1", progress=fail)
        self.assertEqual(children(), before)

    def test_ctrl_c_ends_the_program(self) -> None:
        text = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from tests.test_lab import children
from anabranch import lab
def interrupt(line):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    lab.run("bottleneck", progress=interrupt)
except KeyboardInterrupt:
    print("interrupted", children())
"""
        self.assertEqual(run(text)[:2], (0, "interrupted []\n"))


class AsyncExperiments(unittest.IsolatedAsyncioTestCase):
    async def test_the_loop_goes_on_and_a_cancellation_ends_the_program(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0.005)
                    turns += 1

            counting = asyncio.create_task(count())
            result = await lab.run_async("horde-rtt", traces=[recording(folder)])
            self.assertGreater(len(result.rows), 0)
            self.assertGreater(turns, 3)
            counting.cancel()
            before = children()
            started = asyncio.Event()
            running = asyncio.create_task(lab.run_async("bottleneck", progress=lambda _: started.set()))
            await asyncio.wait_for(started.wait(), LIMIT)
            self.assertEqual(len(children()), len(before) + 1)
            running.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await running
            self.assertEqual(children(), before)


def children() -> list[int]:
    """Processes of this one that still run."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.append(int(file.parent.name))
    return found


if __name__ == "__main__":
    unittest.main()
