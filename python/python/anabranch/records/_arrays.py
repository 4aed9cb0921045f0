"""Arrays of scientific files, whose first dimension is that of the records."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ..errors import RecordsError
from . import _checks as checks
from ._places import Places


@dataclass(frozen=True)
class Dimension:
    """The first dimension of an array. Those without a name are the same if their lengths are."""

    name: str | None
    length: int
    is_unlimited: bool

    @property
    def key(self) -> str | int:
        return self.name if self.name is not None else self.length

    def __str__(self) -> str:
        name = checks.shown(self.name) if self.name is not None else "without a name"
        return f"{name} ({self.length}{', unlimited' if self.is_unlimited else ''})"


@dataclass(frozen=True)
class Variable:
    """An array with one dimension or more."""

    name: str
    first: Dimension
    #: Lengths of all dimensions.
    shape: tuple[int, ...]
    #: Size in memory, in bytes.
    bytes: int
    #: Places of its rows, as one component or as several that differ in the ends of their names, with so many rows a record.
    places: Callable[[int], Sequence[tuple[str, Places]]]
    #: Rows that cannot be separated: those of a compressed chunk, or of a file.
    unit: int = 1
    #: True if a record has exactly these rows, not several times as many.
    is_exact: bool = False
    #: Reason why nothing can state where its bytes are.
    refusal: str | None = None

    def fits(self, per_record: int) -> bool:
        """True if records of so many rows can be made."""
        if self.unit >= self.first.length and not self.is_exact:
            return per_record >= self.first.length
        return per_record == self.unit if self.is_exact else per_record % self.unit == 0


#: Number, length and time of the last change of a file.
Content = tuple[int, int, int]


def content(path: str) -> Content:
    """What another content of a file changes."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


class Source(ABC):
    """A file, or a Zarr directory."""

    #: Its path beneath the set's directory.
    file: str
    #: Arrays with one dimension or more.
    variables: list[Variable]
    #: True for variables that records may be without.
    is_optional: Callable[[str], bool] = staticmethod(lambda name: False)
    #: Path of the file that it is, and its content before it was read; ``None``: it is a directory.
    whole: tuple[str, Content] | None = None

    @abstractmethod
    def rest(self, chosen: Collection[str], excluded: Collection[str], count: int) -> list[tuple[str, Places]]:
        """What else is needed to open it, as a part of record 0.

        That is everything but the data of the chosen variables and of those that are excluded, and in any case the last byte of a file, so
        that a copy has its length from the beginning.
        """

    def check_unchanged(self) -> None:
        """Raises an error if the file was written to while it was read: the places of arrays may be those of different contents."""
        if self.whole is not None and content(self.whole[0]) != self.whole[1]:
            raise self.fail("it was written to while its manifest was made; run the command again once it is complete")

    def fail(self, reason: str, variable: str | None = None) -> RecordsError:
        """An error of this file."""
        return failure(self.file, reason, variable)


def failure(file: str, reason: str, variable: str | None = None) -> RecordsError:
    """An error of a file, or of a variable in it."""
    place = f"'{checks.shown(file)}': "
    return RecordsError(place + (f"variable '{checks.shown(variable)}': " if variable is not None else "") + reason)


def rows_per_record(variables: Sequence[Variable]) -> int:
    """The smallest number of rows that suits the variables: those with one dimension only if there are no others."""
    large = [variable for variable in variables if len(variable.shape) > 1] or variables
    found = 1
    for variable in large:
        found = math.lcm(found, min(variable.unit, max(variable.first.length, 1)) if not variable.is_exact else variable.unit)
    longest = max((variable.first.length for variable in large), default=1)
    return found if any(variable.is_exact for variable in large) else min(found, max(longest, 1))
