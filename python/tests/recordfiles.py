"""Files and record sets of tests."""

from __future__ import annotations

import importlib
import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.records import RecordSet, make_manifest

#: Numbers of the types of netCDF classic, and sizes of their values.
CDF_TYPES = {"byte": (1, 1), "char": (2, 1), "short": (3, 2), "int": (4, 4), "float": (5, 4), "double": (6, 8), "int64": (10, 8)}


@dataclass(frozen=True)
class Var:
    """A variable: its type, its dimensions, and its values as bytes: all, or those of each record."""

    kind: str
    dims: Sequence[str]
    data: bytes | Sequence[bytes]


def cdf(version: int, dims: Mapping[str, int], variables: Mapping[str, Var], *, records: int | None = None) -> bytes:
    """A netCDF classic file, written from the definition of the format. ``records`` is what the header says of their number."""
    wide = version == 5
    number = ">Q" if wide else ">I"
    names = list(dims)

    def count(value: int) -> bytes:
        return struct.pack(number, value)

    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    def listed(tag: int, items: Sequence[bytes]) -> bytes:
        return struct.pack(">I", tag if items else 0) + count(len(items)) + b"".join(items)

    def name(text: str) -> bytes:
        return count(len(text.encode())) + padded(text.encode())

    recorded = {key: list(one.data) for key, one in variables.items() if not isinstance(one.data, bytes)}
    pad = padded if len(recorded) != 1 else bytes
    attribute = name("title") + struct.pack(">I", 2) + count(5) + padded(b"a set")

    def header(begins: Mapping[str, int]) -> bytes:
        entries = []
        for key, one in variables.items():
            kind, _ = CDF_TYPES[one.kind]
            data = one.data if isinstance(one.data, bytes) else one.data[0] if one.data else b""
            entry = name(key) + count(len(one.dims)) + b"".join(count(names.index(dim)) for dim in one.dims) + listed(12, [attribute])
            entry += struct.pack(">I", kind) + count(len(padded(data)))
            entries.append(entry + struct.pack(">I" if version == 1 else ">Q", begins.get(key, 0)))
        most = max((len(rows) for rows in recorded.values()), default=0)
        return b"".join(
            [
                b"CDF" + bytes([version]),
                count(most if records is None else records),
                listed(10, [name(key) + count(length) for key, length in dims.items()]),
                listed(12, [attribute]),
                listed(11, entries),
            ]
        )

    begins, at = {}, len(header({}))
    for key, one in variables.items():
        if isinstance(one.data, bytes):
            begins[key] = at
            at += len(padded(one.data))
    for key, rows in recorded.items():
        begins[key] = at
        at += len(pad(rows[0])) if rows else 0
    body = bytearray(b"".join(padded(one.data) for one in variables.values() if isinstance(one.data, bytes)))
    for row in range(max(map(len, recorded.values()), default=0)):
        body += b"".join(pad(rows[row]) for rows in recorded.values())
    return header(begins) + body


def optional(module: str) -> Any:
    """A module; ``None`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def write(path: str, data: bytes | str | Mapping[str, Any]) -> str:
    """Writes a file, and its folders; an object becomes JSON."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode())
    return path


def opened(directory: str, *sources: str, **options: Any) -> RecordSet:
    """The set of some sources in a directory, read from its manifest."""
    text = make_manifest([os.path.join(directory, source) for source in sources], directory=directory, json=True, **options)
    return RecordSet(text, directory=directory, name="test", is_json=True)


def extents(records: RecordSet, components: Sequence[str] | None = None) -> list[tuple[str, int, int]]:
    """Files, first bytes and ends of all parts, in their order; empty ones are left out."""
    found = []
    for record in records:
        for component in record:
            part = record[component]
            if components is None or component in components:
                pieces = part.extents if part.extents is not None else [(0, part.size)]
                found += [(part.file, offset, offset + size) for offset, size in pieces if size]
    return sorted(found)


def overlaps(records: RecordSet) -> list[tuple[tuple[str, int, int], tuple[str, int, int]]]:
    """Pairs of extents that have bytes in common."""
    every = extents(records)
    return [(one, other) for one, other in zip(every, every[1:], strict=False) if one[0] == other[0] and other[1] < one[2]]


def copied(records: RecordSet, target: str, count: int) -> str:
    """Copies the first records, each part to its place in files of another directory, as a receiver does.

    Files have their length from the beginning: HDF5 opens none that is shorter than it should be.
    """
    ends = {file: end for file, _, end in sorted(extents(records), key=lambda one: one[2])}
    for record in records[:count]:
        for component in record:
            part = record[component]
            path = os.path.join(target, *part.file.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            data = part.read()
            with open(path, "r+b" if os.path.exists(path) else "w+b") as file:
                file.truncate(ends.get(part.file, 0))
                for offset, size in part.extents if part.extents is not None else [(0, len(data))]:
                    file.seek(offset)
                    file.write(data[:size])
                    data = data[size:]
    return target
