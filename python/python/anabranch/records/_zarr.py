"""Zarr directories, versions 2 and 3: each chunk is a file.

Nothing but the metadata is read, which is JSON: ``.zarray`` (version 2) and ``zarr.json`` (version 3).
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Collection, Sequence
from typing import Any

from . import _checks as checks
from ._arrays import Dimension, Source, Variable
from ._manifest import Location
from ._places import First, Listed, Numbered, Places, is_plain

#: Longest text of metadata, in bytes.
_METADATA_BYTES_MAX = 256 << 20
_RANK_MAX = 64
_MARKS = (".zarray", ".zgroup", "zarr.json")
#: Bytes of a value in the name of a type: those of version 3 end in bits, those of version 2 in bytes.
_BITS, _BYTES = re.compile(r"[a-z]+([0-9]+)"), re.compile(r"[<>|][a-zA-Z]([0-9]+)")


def is_zarr(path: str) -> bool:
    """True if the directory is a Zarr array or group."""
    return any(os.path.isfile(os.path.join(path, mark)) for mark in _MARKS)


class _Array:
    """Metadata of an array."""

    def __init__(self, source: Zarr, name: str, meta: dict[str, Any], attributes: dict[str, Any]) -> None:
        self.name = name
        shape, chunk = meta.get("shape"), meta.get("chunks")
        names = attributes.get("_ARRAY_DIMENSIONS")
        self.separator, self.prefix = meta.get("dimension_separator") or ".", ""
        kind = meta.get("dtype")
        if meta.get("zarr_format") == 3:
            grid, key = meta.get("chunk_grid"), meta.get("chunk_key_encoding")
            if not isinstance(grid, dict) or grid.get("name") != "regular":
                raise source.fail("its grid of chunks is not regular, which is the only one that is supported", name)
            if meta.get("storage_transformers"):
                raise source.fail("storage transformers are not supported", name)
            settings = grid.get("configuration")
            chunk = settings.get("chunk_shape") if isinstance(settings, dict) else None
            encoding = key.get("name") if isinstance(key, dict) else key
            if encoding not in ("default", "v2"):
                raise source.fail(f"names of chunks are encoded as '{checks.shown(encoding)}'; 'default' and 'v2' are supported", name)
            settings = key.get("configuration") if isinstance(key, dict) else None
            settings = settings if isinstance(settings, dict) else {}
            self.separator = settings.get("separator", "/" if encoding == "default" else ".")
            self.prefix = "c" if encoding == "default" else ""
            names, kind = meta.get("dimension_names"), meta.get("data_type")
        elif meta.get("zarr_format") != 2:
            raise source.fail(f"it has the format {checks.shown(meta.get('zarr_format'))}; 2 and 3 are supported", name)
        self.shape = self._lengths(source, "shape", shape, 0)
        self.chunk = self._lengths(source, "shape of chunks", chunk, 1)
        if len(self.shape) != len(self.chunk):
            raise source.fail(f"its shape has {len(self.shape)} dimensions, its chunks have {len(self.chunk)}", name)
        if self.separator not in (".", "/"):
            raise source.fail(f"the separator '{checks.shown(self.separator)}' is not supported; there are '.' and '/'", name)
        first = names[0] if isinstance(names, list) and names else None
        self.dimension: str | None = first if isinstance(first, str) and first else None
        found = [pattern.fullmatch(kind) for pattern in (_BITS, _BYTES)] if isinstance(kind, str) else [None, None]
        self.value_bytes = int(found[0][1][:6]) // 8 if found[0] else int(found[1][1][:6]) if found[1] else 1

    def _lengths(self, source: Zarr, what: str, value: Any, least: int) -> tuple[int, ...]:
        is_list = isinstance(value, list) and len(value) <= _RANK_MAX
        if not is_list or not all(isinstance(one, int) and not isinstance(one, bool) and least <= one < 1 << 63 for one in value):
            raise source.fail(f"its {what} is not a list of up to {_RANK_MAX} lengths: {checks.shown(value)}", self.name)
        return tuple(value)

    def key(self, *place: int | str) -> str:
        """Path of a chunk beneath the array."""
        return (self.prefix + self.separator if self.prefix else "") + self.separator.join(map(str, place))


class Zarr(Source):
    """A Zarr directory."""

    def __init__(self, path: str, file: str, skipped: Collection[str]) -> None:
        self.file = file or "."
        self._path = path
        self._prefix = file + "/" if file else ""
        #: Name of an array that is the directory itself.
        self._label = os.path.basename(os.path.abspath(path))
        self._arrays: dict[str, _Array] = {}
        #: Files of the directory, with ``/`` between the parts of their paths.
        self._files: set[str] = set()
        self._walk(skipped)
        self.variables = [self._variable(array) for array in self._arrays.values() if array.shape]

    def _walk(self, skipped: Collection[str]) -> None:
        for prefix, _, files in checks.walk(self._path, skipped):
            # A pipe or a device is no chunk: reading it would wait.
            self._files.update(prefix + name for name in files if os.path.isfile(os.path.join(self._path, prefix, name)))
            name = prefix.rstrip("/")
            if ".zarray" in files:
                attributes = self._json(prefix + ".zattrs") if ".zattrs" in files else {}
                self._arrays[name] = _Array(self, name, self._json(prefix + ".zarray"), attributes)
            elif "zarr.json" in files:
                meta = self._json(prefix + "zarr.json")
                if meta.get("node_type") == "array":
                    self._arrays[name] = _Array(self, name, meta, {})
        self._arrays = dict(sorted(self._arrays.items()))

    def _json(self, file: str) -> dict[str, Any]:
        path = os.path.join(self._path, *file.split("/"))
        try:
            data = checks.read_text(path, _METADATA_BYTES_MAX)
            if data is None:
                raise self.fail(f"'{checks.shown(file)}' has more than 256 MiB")
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise self.fail(f"'{checks.shown(file)}' is not JSON: {checks.shown(reason)}") from None
        if not isinstance(found, dict):
            raise self.fail(f"'{checks.shown(file)}' is not a JSON object")
        return found

    def _variable(self, array: _Array) -> Variable:
        first = Dimension(array.dimension, array.shape[0], False)
        size = math.prod(array.shape, start=array.value_bytes)
        return Variable(
            self._name(array), first, array.shape, size, lambda per_record: self._places(array, per_record), array.chunk[0], True
        )

    def _name(self, array: _Array) -> str:
        return array.name or self._label

    def _places(self, array: _Array, per_record: int) -> list[tuple[str, Places]]:
        count = -(-array.shape[0] // per_record)
        grid = [-(-length // size) for length, size in zip(array.shape[1:], array.chunk[1:], strict=True)]
        if math.prod(grid) > checks.COMPONENTS_MAX:
            reason = f"a record would have {math.prod(grid)} files, each a component; up to {checks.COMPONENTS_MAX} are possible"
            raise self.fail(f"{reason}: write larger chunks", array.name)
        if count > checks.RECORDS_MAX:
            raise self.fail(f"it has {count} rows of chunks; up to {checks.RECORDS_MAX} records are possible", array.name)
        found: list[tuple[str, Places]] = []
        for place in itertools.product(*map(range, grid)):
            suffix = "" if math.prod(grid) == 1 else "." + ".".join(map(str, place))
            found.append((suffix, self._column(array, count, place)))
        return found

    def _column(self, array: _Array, count: int, place: Sequence[int]) -> Places:
        """Files of the chunks that differ in the first coordinate alone."""
        inner = f"{array.name}/" if array.name else ""
        missing = next((number for number in range(count) if inner + array.key(number, *place) not in self._files), None)
        if missing is not None and not self.is_optional(self._name(array)):
            reason = f"there is no file for chunk {array.key(missing, *place)}; write it, or make the component optional"
            raise self.fail(reason, self._name(array))
        if missing is None and is_plain(self._prefix + inner):
            return Numbered(f"{self._prefix}{inner}{array.key('{n}', *place)}", count)
        files = (inner + array.key(number, *place) for number in range(count))
        return Listed([self._prefix + file if file in self._files else None for file in files])

    def _owner(self, file: str) -> _Array | None:
        """The array that the file is a chunk of."""
        folder = file
        while folder:
            folder = folder.rpartition("/")[0]
            array = self._arrays.get(folder)
            if array is not None:
                shape = re.escape(array.key()) + re.escape(array.separator).join(["[0-9]+"] * len(array.shape))
                return array if re.fullmatch(shape, file[len(folder) + 1 if folder else 0 :]) else None
        return None

    def rest(self, chosen: Collection[str], excluded: Collection[str], count: int) -> list[tuple[str, Places]]:
        left_out = {*chosen, *excluded}
        owners = ((file, self._owner(file)) for file in self._files)
        left = sorted(file for file, owner in owners if owner is None or self._name(owner) not in left_out)
        if len(left) > checks.COMPONENTS_MAX:
            reason = (
                f"the header would have {len(left)} files, each a component; up to {checks.COMPONENTS_MAX} are possible: "
                "make no component of it (--no-header)"
            )
            raise self.fail(reason)
        return [
            ("" if len(left) == 1 else "." + file.replace("/", "."), First(Location(self._prefix + file, None), count)) for file in left
        ]
