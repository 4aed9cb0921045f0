"""netCDF-4 and HDF5 files, of which the package h5py states the places of bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import RecordsError
from . import _checks as checks
from ._arrays import Dimension, Source, Variable
from ._manifest import Extent, Location
from ._places import First, Places, Rows, complement, ended
from ._tiles import Tiles

SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: Objects of a file: arrays, groups and others.
_OBJECTS_MAX = 1 << 20
#: Groups within each other.
_DEPTH_MAX = 256
#: Chunks of an array.
_CHUNKS_MAX = 4_000_000
#: Beginning of the attribute NAME of a dimension that has no values.
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def is_hdf5(path: str) -> bool:
    """True if the file has the signature at one of the possible places: 0, 512, and its doubles."""
    with open(path, "rb") as file:
        length, at = os.fstat(file.fileno()).st_size, 0
        while at + len(SIGNATURE) <= length:
            file.seek(at)
            if file.read(len(SIGNATURE)) == SIGNATURE:
                return True
            at = at * 2 if at else 512
    return False


def _text(name: str | bytes) -> str:
    """A name; h5py leaves those as bytes that are not UTF-8."""
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else name


def _array(opened: Any, name: str) -> Any:
    """The array of this name."""
    return opened[name.encode(errors="surrogateescape")]


class Hdf5(Source):
    """An HDF5 file."""

    def __init__(self, path: str, file: str) -> None:
        self.file = file
        self._path = path
        try:
            import h5py
        except ImportError:
            raise self.fail("netCDF-4 and HDF5 files need h5py: pip install 'anabranch[records]'") from None
        self._h5py: Any = h5py
        self._length = os.stat(path).st_size
        #: Extents of arrays, in the order of their indices.
        self._extents: dict[str, list[Extent]] = {}
        #: Arrays whose last value is the last of the file.
        self._ending: set[str] = set()
        with self._opened() as opened:
            self.variables = list(self._find(opened))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The open file; whatever the library finds wrong is an error of this package."""
        try:
            with self._h5py.File(self._path, "r") as opened:
                yield opened
        except RecordsError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise self.fail(f"h5py cannot read it, it is damaged, incomplete or being written: {checks.shown(error)}") from None

    def _find(self, opened: Any) -> Iterator[Variable]:
        for name in self._names(opened):
            array = _array(opened, name)
            if array.shape and not self._is_dimension_only(array):
                yield self._variable(name, array)

    def _names(self, opened: Any) -> list[str]:
        """Names of all arrays. One that several hard links lead to has the first of its names; soft and external links are not followed."""
        h5o, is_hard = self._h5py.h5o, self._h5py.h5l.TYPE_HARD
        names: list[str] = []
        seen = {h5o.get_info(opened.id).addr}
        # The library's own walk takes the square of the depth in time, without a way to stop it.
        groups = [("", opened.id, iter(list(opened.id)))]
        count = 0
        while groups:
            prefix, group, links = groups[-1]
            link = next(links, None)
            if link is None:
                groups.pop()
                continue
            count += 1
            if count > _OBJECTS_MAX:
                raise self.fail(f"it has more than {_OBJECTS_MAX} objects; write fewer, larger arrays")
            if group.links.get_info(link).type != is_hard:
                continue
            thing = h5o.open(group, link)
            info = h5o.get_info(thing)
            if info.addr in seen:
                continue
            seen.add(info.addr)
            name = prefix + _text(link)
            if info.type == h5o.TYPE_DATASET:
                names.append(name)
            elif info.type == h5o.TYPE_GROUP:
                if len(groups) >= _DEPTH_MAX:
                    raise self.fail(f"its groups are nested more than {_DEPTH_MAX} deep; move the arrays up, or copy them to another file")
                groups.append((name + "/", thing, iter(list(thing))))
        return names

    def _is_dimension_only(self, array: Any) -> bool:
        if not self._h5py.h5ds.is_scale(array.id) or "NAME" not in array.attrs:
            return False
        name = array.attrs["NAME"]
        return isinstance(name, bytes) and name.startswith(_NO_VARIABLE)

    def _variable(self, name: str, array: Any) -> Variable:
        shape = tuple(int(length) for length in array.shape)
        first = Dimension(self._first_name(array), shape[0], array.maxshape[0] is None)
        refusal = self._refusal(array)
        unit = 1
        if refusal is None and array.chunks and self._is_filtered(array):
            unit = int(array.chunks[0])
        size = 0 if refusal is not None else math.prod(shape, start=int(array.id.get_type().get_size()))
        return Variable(name, first, shape, size, lambda per_record: [("", self._places(name, per_record))], unit, False, refusal)

    def _first_name(self, array: Any) -> str | None:
        if self._h5py.h5ds.is_scale(array.id):
            return _text(array.name).strip("/")
        try:
            dimension = array.dims[0]
            scales = dimension.values()
            name = scales[0].name if scales else dimension.label
        except (RuntimeError, KeyError, ValueError, OSError):
            return None
        return _text(name).strip("/") or None if name else None

    def _is_filtered(self, array: Any) -> bool:
        return bool(array.id.get_create_plist().get_nfilters())

    def _refusal(self, array: Any) -> str | None:
        h5d = self._h5py.h5d
        created = array.id.get_create_plist()
        layout = created.get_layout()
        if layout == h5d.COMPACT:
            return "its data is within the header (compact storage), where no place can be stated"
        if layout == h5d.VIRTUAL:
            return "its data is that of other arrays (a virtual dataset); take the files that have it"
        if layout == h5d.CONTIGUOUS and created.get_external_count():
            return "its data is in other files (external storage)"
        try:
            has_objects = array.dtype.hasobject
        except TypeError as error:
            return f"its type is not supported: {checks.shown(error)}"
        if has_objects:
            return "its values have variable lengths, or are references: they are not where the array is"
        if layout == h5d.CONTIGUOUS and array.size and array.id.get_offset() is None:
            return "its data was never written"
        return None

    def _places(self, name: str, per_record: int) -> Places:
        with self._opened() as opened:
            array = _array(opened, name)
            shape = tuple(int(length) for length in array.shape)
            size = int(array.id.get_type().get_size())
            if not array.chunks:
                [extent] = self._extents[name] = self._all_extents(name, array)
                row = math.prod(shape[1:], start=size)
                if extent.offset + extent.size == self._length:
                    self._ending.add(name)
                return Rows(self.file, extent.offset, row, row, shape[0], per_record)
            chunk = tuple(int(length) for length in array.chunks)
            chunks = self._chunks(name, array, chunk)
            self._extents[name] = list(chunks.values())
            last = next((place for place, extent in chunks.items() if extent.offset + extent.size == self._length), None)
            is_filtered = self._is_filtered(array)
            if last is not None and (is_filtered or all((at + 1) * one <= all_ for at, one, all_ in zip(last, chunk, shape, strict=True))):
                # What fills up a chunk beyond the array is in no part.
                self._ending.add(name)
            tiles = Tiles(self.file, name, shape, chunk, size, is_filtered, chunks)
        return tiles.rows(per_record, is_optional=self.is_optional(name))

    def _all_extents(self, name: str, array: Any) -> list[Extent]:
        """All bytes of an array."""
        if array.chunks:
            return list(self._chunks(name, array, tuple(map(int, array.chunks))).values())
        size = math.prod(array.shape, start=int(array.id.get_type().get_size()))
        return [self._inside(Extent(int(array.id.get_offset() or 0), size), name)]

    def _chunks(self, name: str, array: Any, chunk: tuple[int, ...]) -> dict[tuple[int, ...], Extent]:
        count = array.id.get_num_chunks()
        if count > _CHUNKS_MAX:
            raise self.fail(f"it has {count} chunks; up to {_CHUNKS_MAX} are possible: write it with larger ones", name)
        found: dict[tuple[int, ...], Extent] = {}
        plain = math.prod(chunk, start=int(array.id.get_type().get_size()))
        is_filtered = self._is_filtered(array)
        base = self._base(name, array) if count else 0

        def take(info: Any) -> None:
            place = tuple(int(at) // length for at, length in zip(info.chunk_offset, chunk, strict=True))
            extent = Extent(int(info.byte_offset) + base, int(info.size))
            if not is_filtered and extent.size != plain:
                raise self.fail(f"a chunk has {extent.size} bytes in place of {plain}", name)
            found[place] = self._inside(extent, name)

        if hasattr(array.id, "chunk_iter"):
            array.id.chunk_iter(take)
        else:
            for index in range(count):
                take(array.id.get_chunk_info(index))
        return found

    def _base(self, name: str, array: Any) -> int:
        """Bytes before those from which places of chunks are counted: versions of the library differ after a user block."""
        block = int(array.file.userblock_size)
        if not block:
            return 0
        info = array.id.get_chunk_info(0)
        _, data = array.id.read_direct_chunk(info.chunk_offset)
        with open(self._path, "rb") as file:
            for base in (0, block):
                file.seek(info.byte_offset + base)
                if file.read(info.size) == data:
                    return base
        raise self.fail("its chunks are not where h5py says, after the user block", name)

    def _inside(self, extent: Extent, name: str) -> Extent:
        if extent.offset + extent.size > self._length:
            end = extent.offset + extent.size
            raise self.fail(f"its data would end at byte {end}, but the file has {self._length}; it is incomplete", name)
        return extent

    def rest(self, chosen: Collection[str], excluded: Collection[str], count: int) -> list[tuple[str, Places]]:
        known = {variable.name: variable for variable in self.variables}
        for name in excluded:
            if known[name].refusal is None:
                with self._opened() as opened:
                    self._extents[name] = self._all_extents(name, _array(opened, name))
        taken = [extent for name in (*chosen, *excluded) for extent in self._extents.get(name, [])]
        extents = complement(taken, self._length)
        if len(extents) >= checks.EXTENTS_MAX:
            raise self.fail(f"the header would have {len(extents)} pieces; make no component of it (--no-header)")
        is_last_taken = any(name in self._ending for name in chosen)
        return [("", First(Location(self.file, ended(extents, self._length, is_last_taken=is_last_taken)), count))]
