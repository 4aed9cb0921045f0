"""netCDF classic files: CDF-1, CDF-2 (64-bit offset) and CDF-5 (64-bit data).

The format is that of the NetCDF Classic Format Specification, and for CDF-5 that of PnetCDF. Numbers are big endian. In CDF-5, NUMBER is
a 64-bit one; in CDF-1, OFFSET is a 32-bit one.

::

    file       = "CDF" version:u8 records:NUMBER dimensions attributes variables data
    dimensions = tag:u32 (10) count:NUMBER [name length:NUMBER]…           length 0: unlimited
    attributes = tag:u32 (12) count:NUMBER [name type:u32 count:NUMBER values, padded to 4 bytes]…
    variables  = tag:u32 (11) count:NUMBER [name dims:NUMBER [dimension:NUMBER]… attributes type:u32 vsize:NUMBER begin:OFFSET]…
    name       = count:NUMBER bytes, padded to 4 bytes
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import BinaryIO

from . import _checks as checks
from ._arrays import Dimension, Source, Variable, failure
from ._manifest import Extent, Location
from ._places import First, Places, Rows, complement, ended

#: Bytes of a value by the number of its type: byte, char, short, int, float, double, ubyte, ushort, uint, int64, uint64.
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
#: The largest type before CDF-5.
_CLASSIC_TYPE_MAX = 6
_DIMENSION_TAG, _VARIABLE_TAG, _ATTRIBUTE_TAG = 10, 11, 12
#: Entries of a list, far more than libraries write.
_LIST_MAX = 1 << 20
_NAME_BYTES_MAX = 4096
_RANK_MAX = 1024


@dataclass(frozen=True)
class _Array:
    """A variable: its place in the file."""

    name: str
    dims: tuple[int, ...]
    is_record: bool
    #: Bytes of a row: of a record, or of a step of the first dimension.
    row_bytes: int
    rows: int
    begin: int

    @property
    def end_fixed(self) -> int:
        return self.begin + self.row_bytes * self.rows


class _Header:
    """Reads the header, and nothing beyond the end of the file."""

    def __init__(self, file: BinaryIO, path: str, length: int) -> None:
        self._file, self._path, self._length = file, path, length
        self._at = 0
        magic = self._take(4, "its header")
        self.version = magic[3]
        if magic[:3] != b"CDF" or self.version not in (1, 2, 5):
            raise failure(path, "it is not a netCDF classic file of version 1, 2 or 5")
        self._number_bytes = 8 if self.version == 5 else 4
        self.records = self._number("the number of records")
        self.is_streaming = self.records == (1 << (8 * self._number_bytes)) - 1
        self.dimensions = self._dimensions()
        self._attributes("the file")
        self.variables = self._variables()
        self.end = self._at

    def _take(self, size: int, what: str) -> bytes:
        if size > self._length - self._at:
            reason = f"{what} would end at byte {self._at + size}, but the file has {self._length}; it is damaged or incomplete"
            raise failure(self._path, reason)
        self._at += size
        data = self._file.read(size)
        if len(data) != size:
            raise failure(self._path, f"{what} cannot be read: the file became shorter meanwhile")
        return data

    def _skip(self, size: int, what: str) -> None:
        if size > self._length - self._at:
            self._take(size, what)
        self._at += size
        self._file.seek(self._at)

    def _integer(self, size: int, what: str) -> int:
        return int.from_bytes(self._take(size, what), "big")

    def _number(self, what: str) -> int:
        return self._integer(self._number_bytes, what)

    def _list(self, tag: int, what: str) -> int:
        """Number of entries of a list."""
        found, count = self._integer(4, what), self._number(what)
        if count and found != tag:
            raise failure(self._path, f"{what} begin with the tag {found} in place of {tag}; its header is damaged")
        if count > _LIST_MAX:
            raise failure(self._path, f"{what} are {count}; up to {_LIST_MAX} are possible, its header is damaged")
        return count

    def _name(self, what: str) -> str:
        size = self._number(what)
        if size > _NAME_BYTES_MAX:
            raise failure(self._path, f"{what} has {size} bytes; up to {_NAME_BYTES_MAX} are possible, its header is damaged")
        data = self._take(_padded(size), what)[:size]
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise failure(self._path, f"{what} is not UTF-8: {checks.shown(data.decode(errors='backslashreplace'))}") from None

    def _type_bytes(self, what: str) -> int:
        kind = self._integer(4, what)
        if kind not in _TYPE_BYTES or (self.version < 5 and kind > _CLASSIC_TYPE_MAX):
            raise failure(self._path, f"{what} has the type {kind}, which does not exist in this version; its header is damaged")
        return _TYPE_BYTES[kind]

    def _dimensions(self) -> list[tuple[str, int]]:
        what = "the dimensions"
        count = self._list(_DIMENSION_TAG, what)
        found = [(self._name("the name of a dimension"), self._number(what)) for _ in range(count)]
        unlimited = [name for name, length in found if length == 0]
        if len(unlimited) > 1:
            names = ", ".join(map(checks.shown, unlimited[:8]))
            raise failure(self._path, f"it has {len(unlimited)} unlimited dimensions, of which one is possible: {names}")
        return found

    def _attributes(self, of: str) -> None:
        what = f"the attributes of {of}"
        for _ in range(self._list(_ATTRIBUTE_TAG, what)):
            self._skip(_padded(self._number(what)), what)
            size = self._type_bytes(what)
            self._skip(_padded(self._number(what) * size), what)

    def _variables(self) -> list[tuple[str, tuple[int, ...], int, int]]:
        """Names, dimensions, bytes of a value, and begins."""
        found = []
        for _ in range(self._list(_VARIABLE_TAG, "the variables")):
            name = self._name("the name of a variable")
            what = f"variable '{checks.shown(name)}'"
            rank = self._number(what)
            if rank > _RANK_MAX:
                raise failure(self._path, f"it has {rank} dimensions; up to {_RANK_MAX} are possible, the header is damaged", name)
            dims = tuple(self._number(what) for _ in range(rank))
            for place, dim in enumerate(dims):
                if dim >= len(self.dimensions):
                    reason = f"it has the dimension number {dim} of {len(self.dimensions)}; the header is damaged"
                    raise failure(self._path, reason, name)
                if place and self.dimensions[dim][1] == 0:
                    raise failure(self._path, "the unlimited dimension is not its first one; the header is damaged", name)
            self._attributes(what)
            size = self._type_bytes(what)
            # Computed below: the field is wrong in variables of 4 GiB and more.
            self._number(what)
            found.append((name, dims, size, self._integer(4 if self.version == 1 else 8, what)))
        return found


def _padded(size: int) -> int:
    return size + -size % 4


class NetCdf3(Source):
    """A netCDF classic file."""

    def __init__(self, path: str, file: str) -> None:
        self.file = file
        with open(path, "rb") as opened:
            self._length = os.fstat(opened.fileno()).st_size
            header = _Header(opened, file, self._length)
        dimensions = header.dimensions
        self._arrays = [self._array(header, *variable) for variable in header.variables]
        names: set[str] = set()
        for array in self._arrays:
            if array.name in names:
                raise self.fail("there are two of this name; the header is damaged", array.name)
            names.add(array.name)
        recorded = [array for array in self._arrays if array.is_record]
        # A single variable of records is not padded.
        pad = _padded if len(recorded) != 1 else lambda size: size
        self._stride = sum(pad(array.row_bytes) for array in recorded)
        self._section = min((array.begin for array in recorded), default=self._length)
        if not header.is_streaming:
            self._records = header.records
        elif recorded and self._stride:
            self._records = max(self._length - self._section, 0) // self._stride
        else:
            self._records = 0
        self._check(recorded)
        self.variables = [self._variable(array, dimensions) for array in self._arrays if array.dims]

    def _array(self, header: _Header, name: str, dims: tuple[int, ...], size: int, begin: int) -> _Array:
        lengths = [header.dimensions[dim][1] for dim in dims]
        is_record = bool(lengths) and lengths[0] == 0
        rows = 1 if is_record or not lengths else lengths[0]
        row_bytes = math.prod(lengths[1:], start=size)
        if begin < header.end:
            raise self.fail(f"its data would begin at byte {begin}, within the header of {header.end} bytes", name)
        return _Array(name, dims, is_record, row_bytes, rows, begin)

    def _check(self, recorded: list[_Array]) -> None:
        """All data is in the file, and none of it belongs to two variables."""
        taken = [(array.begin, array.end_fixed, array.name) for array in self._arrays if not array.is_record]
        for array in recorded:
            self._check_end(self._end(array), array.name)
        if self._records and self._stride:
            self._check_overlap([(array.begin, array.begin + array.row_bytes, array.name) for array in recorded])
            past = max(array.begin + array.row_bytes for array in recorded)
            if past > self._section + self._stride:
                latest = max(recorded, key=lambda array: array.begin)
                raise self.fail("its records would overlap those of other variables; the header is damaged", latest.name)
            end = self._section + (self._records - 1) * self._stride + past - self._section
            taken.append((self._section, end, recorded[0].name))
        for _, end, name in taken:
            self._check_end(end, name)
        self._check_overlap(taken)

    def _end(self, array: _Array) -> int:
        """End of an array's data."""
        if not array.is_record:
            return array.end_fixed
        return array.begin + (self._records - 1) * self._stride + array.row_bytes if self._records else array.begin

    def _check_end(self, end: int, name: str) -> None:
        if end > self._length:
            reason = f"its data would end at byte {end}, but the file has {self._length}; it is incomplete, or the header is damaged"
            raise self.fail(reason, name)

    def _check_overlap(self, taken: list[tuple[int, int, str]]) -> None:
        taken = sorted(one for one in taken if one[1] > one[0])
        for (_, end, one), (begin, _, other) in zip(taken, taken[1:], strict=False):
            if begin < end:
                raise self.fail(f"its data would overlap that of '{checks.shown(one)}'; the header is damaged", other)

    def _variable(self, array: _Array, dimensions: list[tuple[str, int]]) -> Variable:
        rows = self._records if array.is_record else array.rows
        stride = self._stride if array.is_record else array.row_bytes
        first = Dimension(dimensions[array.dims[0]][0], rows, array.is_record)

        def places(per_record: int) -> list[tuple[str, Places]]:
            return [("", Rows(self.file, array.begin, stride, array.row_bytes, rows, per_record))]

        shape = (rows, *(dimensions[dim][1] for dim in array.dims[1:]))
        return Variable(array.name, first, shape, rows * array.row_bytes, places)

    def rest(self, chosen: Collection[str], excluded: Collection[str], count: int) -> list[tuple[str, Places]]:
        left_out = {*chosen, *excluded}
        taken = [
            Extent(array.begin, array.end_fixed - array.begin) for array in self._arrays if not array.is_record and array.name in left_out
        ]
        kept = sorted((array for array in self._arrays if array.is_record and array.name not in left_out), key=lambda array: array.begin)
        if self._records and len(kept) < sum(array.is_record for array in self._arrays):
            taken.append(Extent(self._section, self._records * self._stride))
        else:
            # All of the section, with what pads it, or none.
            kept = []
        if len(kept) * self._records + len(taken) > checks.EXTENTS_MAX:
            names = ", ".join(checks.shown(array.name) for array in kept[:8])
            reason = f"the header would have {len(kept) * self._records} pieces of {names}; make components of them, or none of the header"
            raise self.fail(reason)
        extents = [*complement(taken, self._length)]
        for row in range(self._records if kept else 0):
            extents += [Extent(array.begin + row * self._stride, array.row_bytes) for array in kept]
        is_last_taken = any(self._end(array) == self._length for array in self._arrays if array.name in chosen)
        return [("", First(Location(self.file, ended(extents, self._length, is_last_taken=is_last_taken)), count))]
