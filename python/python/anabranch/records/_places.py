"""Places of a component in every record, as sources of sets give them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..errors import RecordsError
from . import _checks as checks
from ._manifest import Extent, Location


def merged(extents: Iterable[Extent]) -> tuple[Extent, ...]:
    """The extents, with one in place of each two of which the second begins where the first ends; empty ones are left out."""
    found: list[Extent] = []
    for extent in extents:
        if found and found[-1].offset + found[-1].size == extent.offset:
            found[-1] = Extent(found[-1].offset, found[-1].size + extent.size)
        elif extent.size:
            found.append(extent)
    return tuple(found)


def complement(taken: Iterable[Extent], length: int) -> tuple[Extent, ...]:
    """The bytes of a file of this length that are in none of the extents."""
    found, at = [], 0
    for offset, size in sorted(taken):
        if offset > at:
            found.append(Extent(at, min(offset, length) - at))
        at = max(at, offset + size)
        if at >= length:
            break
    if at < length:
        found.append(Extent(at, length - at))
    return tuple(found)


def ended(extents: Iterable[Extent], length: int, *, is_last_taken: bool) -> tuple[Extent, ...]:
    """The rest of a file of this length, with its last byte unless another part has it."""
    found = merged(sorted(extents))
    if not is_last_taken and length and (not found or found[-1].offset + found[-1].size < length):
        found = merged([*found, Extent(length - 1, 1)])
    return found


class Places(ABC):
    """The part of a component in each record."""

    #: Number of records.
    count: int
    #: Keys of the component that place the parts of most records; ``None``: each record has to list its own.
    template: Mapping[str, str | int] | None = None

    @abstractmethod
    def location(self, number: int) -> Location | None:
        """Place of the part of a record; ``None``: it has none."""

    def follows(self, number: int) -> bool:
        """True if the part of a record is where the template says."""
        return self.template is not None

    @property
    def is_regular(self) -> bool:
        """True if the parts of all records are where the template says."""
        return self.template is not None

    def lacking(self) -> int | None:
        """A record without a part; ``None``: all have one."""
        return None


def is_plain(file: str) -> bool:
    """True if the path can be that of a component, where braces have a meaning."""
    return "{" not in file and "}" not in file


class Rows(Places):
    """Rows of an array at equal distances in a file: ``per_record`` of them are a record, and the last record has the rest."""

    def __init__(self, file: str, offset: int, stride: int, size: int, rows: int, per_record: int) -> None:
        self.file, self.offset, self.stride, self.size, self.rows, self.per_record = file, offset, stride, size, rows, per_record
        self.count = -(-rows // per_record)
        is_dense = stride == size
        if not is_dense and min(per_record, rows) > checks.EXTENTS_MAX:
            reason = f"up to {checks.EXTENTS_MAX} rows that are apart can be a record, not {min(per_record, rows)}"
            raise RecordsError(f"'{checks.shown(file)}': {reason}; make smaller records (--per-record)")
        if is_plain(file) and (is_dense or per_record == 1):
            keys: dict[str, str | int] = {"file": file, "offset": offset, "size": size * per_record}
            if not offset:
                del keys["offset"]
            if not is_dense:
                keys["stride"] = stride
            self.template = keys

    @property
    def is_regular(self) -> bool:
        return self.template is not None and self.rows % self.per_record == 0

    def follows(self, number: int) -> bool:
        return self.template is not None and (self.is_regular or number != self.count - 1)

    def location(self, number: int) -> Location:
        first = number * self.per_record
        rows = min(self.per_record, self.rows - first)
        if self.stride == self.size or rows == 1:
            extents: tuple[Extent, ...] = (Extent(self.offset + first * self.stride, rows * self.size),)
        else:
            extents = merged(Extent(self.offset + row * self.stride, self.size) for row in range(first, first + rows))
        return Location(self.file, extents)


class Numbered(Places):
    """A file for each record, whose path has the record's number."""

    def __init__(self, pattern: str, count: int) -> None:
        self.count = count
        self.template = {"file": pattern}

    def location(self, number: int) -> Location:
        raise AssertionError("every record follows the template")


class Listed(Places):
    """Files of a list; ``None``: the record has none. With a pattern, the files are where it says."""

    def __init__(self, files: Sequence[str | None], pattern: str | None = None) -> None:
        self.files = files
        self.count = len(files)
        self.template = {"file": pattern} if pattern is not None else None

    def location(self, number: int) -> Location | None:
        file = self.files[number]
        return Location(file, None) if file is not None else None

    def lacking(self) -> int | None:
        return next((number for number, file in enumerate(self.files) if file is None), None)


class Computed(Places):
    """Parts that a function finds; ``lacking`` is a record without one."""

    def __init__(self, count: int, location: Callable[[int], Location | None], lacking: int | None = None) -> None:
        self.count = count
        self._location, self._lacking = location, lacking

    def location(self, number: int) -> Location | None:
        return self._location(number)

    def lacking(self) -> int | None:
        return self._lacking


class First(Places):
    """A part of record 0 alone."""

    def __init__(self, location: Location, count: int) -> None:
        self.count = count
        self._first = location

    def location(self, number: int) -> Location | None:
        return self._first if number == 0 else None

    def lacking(self) -> int | None:
        return 1


class Joined(Places):
    """The records of several files, one file after the other."""

    def __init__(self, parts: Sequence[Places]) -> None:
        self._parts = parts
        self._begins = [0]
        for part in parts:
            self._begins.append(self._begins[-1] + part.count)
        self.count = self._begins[-1]
        self._last = 0

    def location(self, number: int) -> Location | None:
        # Records are asked for in their order.
        if not self._begins[self._last] <= number < self._begins[self._last + 1]:
            self._last = next(index for index in range(len(self._parts)) if number < self._begins[index + 1])
        return self._parts[self._last].location(number - self._begins[self._last])

    def lacking(self) -> int | None:
        for begin, part in zip(self._begins, self._parts, strict=False):
            found = part.lacking()
            if found is not None:
                return begin + found
        return None


def together(component: str, parts: Sequence[Places]) -> Places:
    """Several variables of one file as one component: their rows one after the other."""
    if len(parts) == 1:
        return parts[0]
    rows = [part for part in parts if isinstance(part, Rows)]
    per_record = rows[0].per_record if rows else 1
    if len(rows) == len(parts) and per_record == 1 and len({row.stride for row in rows}) == 1:
        follow = zip(rows, rows[1:], strict=False)
        if all(one.offset + one.size == other.offset for one, other in follow):
            size = sum(row.size for row in rows)
            return Rows(rows[0].file, rows[0].offset, rows[0].stride, size, rows[0].rows, 1)

    def location(number: int) -> Location | None:
        found = [place for place in (part.location(number) for part in parts) if place is not None]
        if len(found) < len(parts):
            return None
        extents: list[Extent] = []
        for place in found:
            if place.extents is None or place.file != found[0].file:
                reason = "a part is in one file; make components of these variables one by one"
                raise RecordsError(f"component '{checks.shown(component)}': {reason}")
            extents.extend(place.extents)
        return Location(found[0].file, merged(extents))

    lacking = next((found for found in (part.lacking() for part in parts) if found is not None), None)
    return Computed(parts[0].count, location, lacking)
