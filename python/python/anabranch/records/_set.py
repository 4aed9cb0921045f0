"""Record sets: the bytes of their records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import overload

from ..errors import RecordsError
from . import _checks as checks
from ._manifest import Component, Extent, Manifest, from_text

#: Bytes that are read at a time.
_BLOCK_BYTES = 1 << 20


class Part:
    """A component of one record: bytes of a file."""

    def __init__(self, directory: str, file: str, extents: tuple[Extent, ...] | None, place: str) -> None:
        #: Path of the file beneath the set's directory, with ``/`` between its parts.
        self.file = file
        #: Path of the file.
        self.path = os.path.join(directory, *file.split("/"))
        #: Its bytes there, one extent after the other; ``None``: all of the file.
        self.extents = extents
        self._place = place

    @property
    def size(self) -> int:
        """Number of bytes. That of a part that is a whole file is asked of the file: :class:`RecordsError` if there is none."""
        if self.extents is not None:
            return sum(extent.size for extent in self.extents)
        try:
            return os.stat(self.path).st_size
        except OSError as error:
            raise self._unreadable(error) from None

    def read(self) -> bytes:
        """All bytes of the part. :class:`RecordsError` if the file cannot be read or ends before the part does."""
        return b"".join(self.blocks())

    def blocks(self, size: int = _BLOCK_BYTES) -> Iterator[bytes]:
        """The bytes in blocks of at most ``size`` bytes (1 or more), for parts that are not to be in memory as a whole."""
        if size < 1:
            raise ValueError("size: a block has 1 byte or more")
        try:
            with open(self.path, "rb") as file:
                if self.extents is None:
                    while block := file.read(size):
                        yield block
                    return
                for offset, length in self.extents:
                    file.seek(offset)
                    while length:
                        block = file.read(min(size, length))
                        if not block:
                            end = offset + length
                            raise RecordsError(f"{self._place}: '{checks.shown(self.file)}' ends before byte {end}; it is incomplete")
                        yield block
                        offset += len(block)
                        length -= len(block)
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> RecordsError:
        return RecordsError(f"{self._place}: '{checks.shown(self.file)}' cannot be read: {error.strerror or error}")

    def __repr__(self) -> str:
        return f"<Part {self.file!r} {'all' if self.extents is None else [tuple(extent) for extent in self.extents]}>"


class Record:
    """A record: parts by the names of their components. Iteration gives the names, in the order of the set's components."""

    def __init__(self, records: RecordSet, number: int) -> None:
        #: Its number in the set, from 0.
        self.number = number
        self._set = records

    @property
    def name(self) -> str:
        """Its name."""
        return self._set._manifest.record_name(self.number)

    def get(self, component: str) -> Part | None:
        """The part of a component; ``None``: the record is without it, or the set has no such component."""
        location = self._set._manifest.location(self.number, component)
        if location is None:
            return None
        place = f"record '{checks.shown(self.name)}', '{checks.shown(component)}'"
        return Part(self._set.directory, location.file, location.extents, place)

    def __getitem__(self, component: str) -> Part:
        part = self.get(component)
        if part is None:
            raise KeyError(component)
        return part

    def __contains__(self, component: object) -> bool:
        return isinstance(component, str) and self._set._manifest.location(self.number, component) is not None

    def __iter__(self) -> Iterator[str]:
        return (component.name for component in self._set.components if component.name in self)

    def read(self) -> bytes:
        """The record's bytes: those of its parts, in the order of the components."""
        return b"".join(self[component].read() for component in self)

    def __repr__(self) -> str:
        return f"<Record {self.number} {self.name!r}: {', '.join(self)}>"


class RecordSet:
    """Records of a manifest, as a sequence: ``records[0]``, ``records[5:9]``, ``len(records)``, iteration; and by name,
    ``records["1979-01-01T00"]``.

    Nothing but the manifest is read before the bytes of a part are asked for.
    """

    def __init__(self, text: str, *, directory: str | os.PathLike[str], name: str, is_json: bool = False) -> None:
        """A set from the text of its manifest, in TOML or JSON. ``name`` holds unless the manifest has one."""
        self._manifest: Manifest = from_text(text, is_json=is_json)
        #: Its name.
        self.name: str = self._manifest.name or name
        #: Directory of the files.
        self.directory: str = os.fspath(directory)
        #: Components, the most important first.
        self.components: list[Component] = self._manifest.components
        #: Records of a second while the set is watched; ``None``: as fast as possible.
        self.rate: float | None = self._manifest.rate

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, directory: str | os.PathLike[str] | None = None) -> RecordSet:
        """Reads a manifest, whose name ends in ``.toml`` or ``.json``.

        ``directory`` holds the set's files; by default, the manifest is in there. :class:`RecordsError` if the manifest cannot be read or
        breaks a rule.
        """
        path = os.fspath(path)
        stem, ending = os.path.splitext(os.path.basename(path))
        if ending not in (".toml", ".json"):
            raise RecordsError(f"'{checks.shown(path)}': the name of a manifest ends in .toml or .json")
        try:
            data = checks.read_text(path, checks.TEXT_BYTES_MAX)
            if data is None:
                raise RecordsError("a manifest has up to 1 GiB; records that follow a pattern need no list")
            home = os.path.dirname(path) or "." if directory is None else directory
            return cls(data.decode(), directory=home, name=stem, is_json=ending == ".json")
        except OSError as error:
            raise RecordsError(f"'{checks.shown(path)}' cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise RecordsError(f"'{checks.shown(path)}': byte {error.start} is not UTF-8") from None
        except RecordsError as error:
            raise RecordsError(f"'{checks.shown(path)}': {error}") from None

    def __len__(self) -> int:
        return self._manifest.count

    @overload
    def __getitem__(self, key: int | str) -> Record: ...
    @overload
    def __getitem__(self, key: slice) -> list[Record]: ...
    def __getitem__(self, key: int | str | slice) -> Record | list[Record]:
        if isinstance(key, slice):
            return [Record(self, number) for number in range(*key.indices(len(self)))]
        if isinstance(key, str):
            number = self._manifest.find(key)
            if number is None:
                raise KeyError(key)
            return Record(self, number)
        number = key + len(self) if key < 0 else key
        if not 0 <= number < len(self):
            raise IndexError(f"record {key}: the set has {len(self)}")
        return Record(self, number)

    def __iter__(self) -> Iterator[Record]:
        return (Record(self, number) for number in range(len(self)))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._manifest.find(key) is not None

    def __repr__(self) -> str:
        return f"<RecordSet {self.name!r}: {len(self)} records of {', '.join(component.name for component in self.components)}>"
