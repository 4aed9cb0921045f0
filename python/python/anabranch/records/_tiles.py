"""Arrays in chunks: the extents of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from . import _checks as checks
from ._arrays import failure
from ._manifest import Extent, Location
from ._places import Computed, merged


@dataclass(frozen=True)
class Tiles:
    """An array in chunks of one shape in a file."""

    file: str
    name: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    #: Bytes of a value.
    value_bytes: int
    #: True if chunks are compressed, or changed in another way: then they are one piece each.
    is_filtered: bool
    #: Chunks by their coordinates in the grid of chunks. Those that were never written are not there.
    chunks: Mapping[tuple[int, ...], Extent]

    @property
    def _grid(self) -> tuple[int, ...]:
        """Chunks along each dimension but the first."""
        return tuple(-(-length // size) for length, size in zip(self.shape[1:], self.chunk[1:], strict=True))

    @property
    def _tail(self) -> int:
        """The dimension beyond which chunks have all values: these lie together."""
        axis = len(self.shape) - 1
        while axis and self.chunk[axis] == self.shape[axis]:
            axis -= 1
        return axis

    def rows(self, per_record: int, *, is_optional: bool) -> Computed:
        """Parts of so many rows each. A record none of whose chunks were ever written has no part, if that is allowed."""
        self._check_pieces(per_record)
        count = -(-self.shape[0] // per_record)
        written = {row for row, *_ in self.chunks}
        lacking = next((number for number in range(count) if not written & self._chunk_rows(number, per_record)), None)
        if lacking is not None and not is_optional:
            raise self._unwritten(lacking)

        def location(number: int) -> Location | None:
            if lacking is not None and not written & self._chunk_rows(number, per_record):
                return None
            find = self._whole if self.is_filtered else self._runs
            return Location(self.file, merged(find(number, per_record)))

        return Computed(count, location, lacking)

    def _chunk_rows(self, number: int, per_record: int) -> set[int]:
        """Rows of the grid of chunks that a record needs."""
        first, last = number * per_record, min((number + 1) * per_record, self.shape[0]) - 1
        return set(range(first // self.chunk[0], last // self.chunk[0] + 1))

    def _whole(self, number: int, per_record: int) -> Iterator[Extent]:
        """Chunks of a record, in the order of their coordinates."""
        for row in sorted(self._chunk_rows(number, per_record)):
            for place in itertools.product((row,), *map(range, self._grid)):
                yield self._chunk(place, number)

    def _runs(self, number: int, per_record: int) -> Iterator[Extent]:
        """Values of a record, in the order of their indices."""
        tail = self._tail
        after = math.prod(self.shape[tail + 1 :], start=self.value_bytes)
        first = number * per_record
        lengths = (min(per_record, self.shape[0] - first), *self.shape[1:])
        begins = (first, *(0 for _ in self.shape[1:]))
        # Indices before the tail one by one, the tail in steps of a chunk.
        outer = [range(begin, begin + length) for begin, length in zip(begins[:tail], lengths[:tail], strict=True)]
        for index in itertools.product(*outer):
            at, end = begins[tail], begins[tail] + lengths[tail]
            while at < end:
                step = min(self.chunk[tail] - at % self.chunk[tail], end - at)
                full = (*index, at, *(0 for _ in self.shape[tail + 1 :]))
                place = tuple(one // size for one, size in zip(full, self.chunk, strict=True))
                inner = 0
                for one, size in zip(full[: tail + 1], self.chunk[: tail + 1], strict=True):
                    inner = inner * size + one % size
                yield Extent(self._chunk(place, number).offset + inner * after, step * after)
                at += step

    def _check_pieces(self, per_record: int) -> None:
        rows = min(per_record, self.shape[0])
        if self.is_filtered:
            pieces = math.prod(self._grid, start=rows // self.chunk[0] + 1)
        else:
            tail, lengths = self._tail, (rows, *self.shape[1:])
            pieces = math.prod(lengths[:tail]) * (lengths[tail] // self.chunk[tail] + 2)
        # Some of them may follow each other.
        if pieces > 4 * checks.EXTENTS_MAX:
            reason = f"a record would have some {pieces} pieces of chunks; up to {checks.EXTENTS_MAX} are possible: write larger chunks"
            raise failure(self.file, reason, self.name)

    def _chunk(self, place: tuple[int, ...], number: int) -> Extent:
        found = self.chunks.get(place)
        if found is None:
            raise self._unwritten(number)
        return found

    def _unwritten(self, number: int) -> Exception:
        reason = f"chunks of record {number} were never written; write them, or make it optional if whole records are without it"
        return failure(self.file, reason, self.name)
