"""Figures of an experiment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import LabError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of an experiment, of all its runs. Their units are in their names."""

    #: Its name.
    experiment: str
    #: Version of the program.
    version: str
    #: Seeds of the runs.
    seeds: list[int]
    #: Recordings that it ran on.
    traces: list[str]
    #: All rows in order, each with the ``seed`` of its run. Rows of different kinds have different columns.
    rows: list[dict[str, Any]]

    @classmethod
    def _read(cls, file: Path) -> Result:
        try:
            runs: list[dict[str, Any]] = json.loads(file.read_text())
            first = runs[0]
            rows = [{"seed": run["seed"], **row} for run in runs for row in run["rows"]]
            seeds = [run["seed"] for run in runs]
            return cls(first["experiment"], first["version"], seeds, first.get("traces", []), rows)
        except (OSError, ValueError, LookupError) as error:
            raise LabError(f"the lab's program wrote no result that can be read: {error!r}") from error

    @property
    def kinds(self) -> list[str]:
        """Kinds of rows, in order; empty for experiments whose rows are all alike."""
        return list(dict.fromkeys(row["kind"] for row in self.rows if "kind" in row))

    def select(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The rows of one kind, or all of them."""
        if kind is None:
            return self.rows
        chosen = [row for row in self.rows if row.get("kind") == kind]
        if not chosen:
            raise LabError(f"{self.experiment} has no rows of the kind {kind!r}; it has {', '.join(self.kinds) or 'no kinds'}")
        return chosen

    @property
    def figures(self) -> Any:
        """All rows as a data frame of pandas; ``ImportError`` without pandas."""
        return self.frame()

    def frame(self, kind: str | None = None) -> Any:
        """The rows of one kind, or all of them, as a data frame of pandas: a column for each figure that one of them has."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "data frames need pandas; install it with: pip install 'anabranch[pandas]', or use rows or array()"
            ) from error
        return pandas.DataFrame.from_records(self.select(kind))

    def array(self, kind: str | None = None) -> NDArray[Any]:
        """The rows of one kind, or all of them, as a structured array of NumPy, shape (rows,), with a field for each figure that one
        of them has: float64, int64, bool or text. Where a row lacks it, it is NaN or an empty text; numbers and booleans that some
        rows lack are float64."""
        try:
            import numpy
        except ImportError as error:
            raise ImportError("arrays need NumPy; install it with: pip install 'anabranch[numpy]'") from error
        rows = self.select(kind)
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = [_column([row.get(name) for row in rows]) for name in names]
        made = [numpy.array(column) for column in columns]
        table = numpy.empty(len(rows), [(name, column.dtype) for name, column in zip(names, made)])
        for name, column in zip(names, made):
            table[name] = column
        return table


def _column(values: list[Any]) -> list[Any]:
    """Values of one type."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool | int | float) for value in known):
        if len(known) == len(values):
            return values
        return [float("nan") if value is None else float(value) for value in values]
    # Texts, and lists or objects as JSON.
    return ["" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
