"""Rows of a comparison, in a file that a later run takes up; and the program that is measured."""

import json
import os
import pathlib
import statistics
import subprocess
import threading

from .network import Failure


def build(folder, package, program):
    """Builds a package of a Cargo workspace; the path of its program."""
    subprocess.run(("cargo", "build", "--release", "--locked", "-q", "-p", package), cwd=folder, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(folder / "target"))
    return str(pathlib.Path(target).resolve() / "release" / program)


class Rows:
    """Figures of all runs, one row each."""

    def __init__(self, experiment, path):
        self.experiment = experiment
        self.path = path
        self.rows = []
        self.turn = threading.Lock()
        if path and path.exists():
            self.rows = [self.row(number, line) for number, line in enumerate(path.read_text().splitlines(), 1) if line]

    def row(self, number, line):
        """A row that an earlier run has written."""
        try:
            row = json.loads(line)
            if row["experiment"] == self.experiment:
                return row | {name: row[name] for name in ("case", "setup", "run")}
        except (ValueError, KeyError, TypeError):
            pass
        raise Failure(f"{self.path}, line {number}: no row of {self.experiment}")

    def has(self, case, setup, run):
        return any((row["case"], row["setup"], row["run"]) == (case, setup, run) for row in self.rows)

    def add(self, case, setup, run, figures):
        """Adds a row, prints it, and keeps it in the file."""
        row = {"experiment": self.experiment, "case": case, "setup": setup, "run": run} | figures
        with self.turn:
            self.rows.append(row)
            print(json.dumps(row), flush=True)
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps(row) + "\n")

    def summary(self):
        """Median, least and largest of each figure, for each case and set-up."""
        groups = {}
        for row in self.rows:
            groups.setdefault((row["case"], row["setup"]), []).append(row)
        for (case, setup), group in groups.items():
            line = {"experiment": self.experiment, "summary": True, "case": case, "setup": setup, "runs": len(group)}
            for name in group[0]:
                values = [row[name] for row in group if isinstance(row.get(name), float)]
                if values and len(values) == len(group):
                    line[f"{name}_median"] = round(statistics.median(values), 4)
                    line[f"{name}_min"], line[f"{name}_max"] = round(min(values), 4), round(max(values), 4)
            yield line
