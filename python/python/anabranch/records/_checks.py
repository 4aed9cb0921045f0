"""Rules of manifests (``spec/records.md``) for single values: names, paths, sizes, rates, durations."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from typing import Any

from ..errors import RecordsError

#: Most components of a set.
COMPONENTS_MAX = 64
#: Most records of a set.
RECORDS_MAX = 100_000_000
#: Most extents of a part.
EXTENTS_MAX = 1 << 20
#: Longest text of a manifest, in bytes.
TEXT_BYTES_MAX = 1 << 30
#: Largest part of a record, in bytes.
PART_BYTES_MAX = 1 << 50
#: Last byte that a file can have.
OFFSET_MAX = (1 << 63) - 1

_NAME_BYTES_MAX = 255
_PATH_BYTES_MAX = 4096
_PATH_PARTS_MAX = 64
_SHOWN_CHARS = 100

#: Characters that are obeyed instead of shown, as in ``crates/base/src/text.rs``.
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
#: A number and a unit. Separators of information are no space in Rust.
_QUANTITY = re.compile(r"[^\S\x1c-\x1f]*([0-9.]*)[^\S\x1c-\x1f]*(.*?)[^\S\x1c-\x1f]*", re.DOTALL)
_SIZES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_BITS = {"bit/s": 1.0, "bps": 1.0, "kbit/s": 1e3, "kbps": 1e3, "mbit/s": 1e6, "mbps": 1e6, "gbit/s": 1e9, "gbps": 1e9}


def shown(text: object) -> str:
    """A text of someone else on one line, for errors."""
    text = str(text)
    cut = text[:_SHOWN_CHARS] + ("…" if len(text) > _SHOWN_CHARS else "")
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", cut)


def refuse(place: str, key: str, value: object, reason: str) -> RecordsError:
    """The error of a value."""
    return RecordsError(f'{place}: {key} = "{shown(value)}": {reason}')


def _part_fault(part: str) -> str | None:
    if not part:
        return "it is empty, or has an empty part"
    if len(part.encode(errors="replace")) > _NAME_BYTES_MAX:
        return "a part of it has more than 255 bytes"
    if part in (".", ".."):
        return "'.' and '..' are not possible: a set does not reach beyond its directory"
    if "\\" in part or ":" in part or _OBEYED.search(part):
        return "it has a '\\', a ':' or a character that is obeyed instead of shown"
    return None


def read_text(path: str, most: int) -> bytes | None:
    """All of a file; ``None``: it has more than ``most`` bytes."""
    with open(path, "rb") as file:
        # A reader makes room for all that it is asked for, also of a short file.
        data = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
        return data if len(data) <= most else None


def walk(path: str, skipped: Collection[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Directories from this one down: the path beneath it, which ends in ``/`` or is empty; folders, which may be taken out; files.

    What is in ``skipped`` (absolute paths) is left out. A directory that cannot be read is an error, lest its files be missing.
    """

    def fail(error: OSError) -> None:
        raise RecordsError(f"'{shown(error.filename)}' cannot be read: {error.strerror or error}")

    for folder, folders, files in os.walk(path, onerror=fail):
        whole = os.path.abspath(folder)
        inner = os.path.relpath(folder, path).replace(os.sep, "/")
        folders[:] = sorted(name for name in folders if os.path.join(whole, name) not in skipped)
        yield "" if inner == "." else inner + "/", folders, [name for name in files if os.path.join(whole, name) not in skipped]


def name_fault(name: str) -> str | None:
    """Reason why a text is no name of a set, a component or a record; ``None``: it is one."""
    fault = _part_fault(name)
    return fault if fault is not None or "/" not in name else "it has a '/'"


def path_fault(path: str) -> str | None:
    """Reason why a text is no path of a file beneath the set's directory; ``None``: it is one."""
    if len(path.encode(errors="replace")) > _PATH_BYTES_MAX:
        return "it has more than 4,096 bytes"
    if path.count("/") >= _PATH_PARTS_MAX:
        return "it is more than 64 directories deep"
    if path.startswith("/"):
        return "it must be relative to the set's directory"
    return next((fault for fault in map(_part_fault, path.split("/")) if fault is not None), None)


def check_name(place: str, name: str) -> str:
    """Returns the name, or raises an error."""
    fault = name_fault(name)
    if fault is not None:
        raise refuse(place, "name", name, fault)
    return name


def check_path(place: str, path: str) -> str:
    """Returns the path, or raises an error."""
    fault = path_fault(path)
    if fault is not None:
        raise refuse(place, "file", path, fault)
    return path


def _quantity(text: str) -> tuple[float, str] | None:
    found = _QUANTITY.fullmatch(text)
    try:
        return (float(found[1]), found[2]) if found is not None else None
    except ValueError:
        return None


def size(place: str, key: str, value: Any) -> int:
    """A size in bytes, from a number or a text with a unit."""
    found: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str):
        quantity = _quantity(value)
        unit = _SIZES.get(quantity[1]) if quantity is not None else None
        if quantity is not None and unit is not None and quantity[0] * unit <= 1e18:
            found = int(quantity[0] * unit)
    if found is None or found < 0:
        raise refuse(place, key, value, 'write a number of bytes, or a text with a unit, such as "172.8 kB" or "1 MiB"')
    if found > PART_BYTES_MAX:
        raise refuse(place, key, value, "up to 1024 TiB are possible")
    return found


def rate_bps(place: str, value: Any) -> float:
    """A rate in bit/s, from a text."""
    quantity = _quantity(value) if isinstance(value, str) else None
    unit = _BITS.get(quantity[1].lower()) if quantity is not None else None
    if quantity is None or unit is None or quantity[0] * unit > 1e15:
        reason = 'write a number and a unit, such as "10 Mbit/s", "256 kbit/s" or "1.5 Gbit/s"'
        raise refuse(place, "rate", value, reason)
    return quantity[0] * unit


def seconds(place: str, value: Any) -> float:
    """A duration in seconds, from a text."""
    quantity = _quantity(value) if isinstance(value, str) else None
    unit = _SECONDS.get(quantity[1]) if quantity is not None else None
    if quantity is None or unit is None or quantity[0] * unit > 3_600_000:
        reason = 'write a number and a unit, such as "150 ms", "2 s", "5 min" or "250 us"'
        raise refuse(place, "deadline", value, reason)
    return quantity[0] * unit


def promise(place: str, value: Any) -> float:
    """A share of windows, between 0 and 1, neither included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise refuse(place, "promise", value, "a share of windows lies between 0 and 1, such as 0.95")
    return float(value)


def per_second(value: Any) -> float:
    """Records of a second, from a text such as ``25/s``."""
    quantity = _quantity(value) if isinstance(value, str) else None
    if quantity is None or quantity[1] != "/s" or not 0 < quantity[0] <= 1e6:
        reason = "write records of a second, such as 25/s; up to 1000000/s are possible"
        raise refuse("the set", "rate", value, reason)
    return quantity[0]
