"""Manifests as they are read: the rules of ``spec/records.md``, the same as those of ``crates/recordset``."""

from __future__ import annotations

import bisect
import json
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import RecordsError
from . import _checks as checks
from ._pattern import Pattern


#: Keys that cannot be null.
_DEFAULTED = ("component", "record", "optional", "parts")


class Extent(NamedTuple):
    """Bytes of a file."""

    #: First byte.
    offset: int
    #: Number of bytes.
    size: int


class Location(NamedTuple):
    """Place of a part: a file beneath the set's directory, and its bytes there; ``None``: all."""

    file: str
    extents: tuple[Extent, ...] | None


@dataclass(frozen=True, slots=True)
class Files:
    """A file for each record."""

    pattern: Pattern
    size: int | None

    def location(self, number: int, name: str) -> Location:
        extents = None if self.size is None else (Extent(0, self.size),)
        return Location(self.pattern.text(number, name), extents)


@dataclass(frozen=True, slots=True)
class Strided:
    """Parts of one size in one file, at equal distances."""

    file: str
    offset: int
    stride: int
    size: int

    def location(self, number: int, name: str) -> Location:
        return Location(self.file, (Extent(self.offset + number * self.stride, self.size),))


@dataclass(frozen=True, slots=True)
class Component:
    """A component of all records."""

    #: Its name, unlike all others.
    name: str
    #: True if records may be without it.
    is_optional: bool = False
    #: Its rate in bit/s; ``None``: that of its size at the set's rate.
    rate_bps: float | None = None
    #: Share of windows of a second that must get the rate; ``None``: it is elastic.
    promise: float | None = None
    #: Age in seconds from which it is of no use to who watches; ``None``: it keeps its use.
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A record of a list, with those parts that are elsewhere than their component says."""

    name: str
    parts: Mapping[str, Location]


class Manifest:
    """A manifest: its components, and the place of each part of each record."""

    def __init__(self, keys: Any) -> None:
        place = "the set"
        keys = _table(place, keys, {"name": str, "rate": str, "component": list, "records": dict, "record": list})
        self.name: str | None = keys.get("name")
        if self.name is not None:
            checks.check_name(place, self.name)
        self.rate = checks.per_second(keys["rate"]) if "rate" in keys else None
        self._templates: dict[str, Files | Strided | None] = {}
        self.components = self._components(keys.get("component", []))
        if "records" in keys and keys.get("record"):
            raise RecordsError(f"{place}: it has [records] and [[record]]; give one of them")
        self._listed: list[Listed] = []
        self._by_name: list[int] = []
        self._pattern = Pattern("{n}")
        if "records" in keys:
            self._counted(keys["records"])
        else:
            self._list(keys.get("record", []))
        for component in self.components:
            if component.promise is not None and component.rate_bps is None and self.rate is None:
                raise RecordsError(
                    f"component '{checks.shown(component.name)}': it is to be promised, but neither it nor the set has a rate; "
                    'add rate = "34 Mbit/s" here, or rate = "25/s" to the set'
                )

    def _components(self, layers: Sequence[Any]) -> list[Component]:
        if not layers:
            raise RecordsError("the set: it has no [[component]]; add one")
        if len(layers) > checks.COMPONENTS_MAX:
            raise RecordsError(f"the set: it has {len(layers)} components; up to {checks.COMPONENTS_MAX} are possible")
        known = {
            "name": str,
            "file": str,
            "size": object,
            "offset": object,
            "stride": object,
            "optional": bool,
            "rate": str,
            "promise": object,
            "deadline": str,
        }
        found: list[Component] = []
        for layer in layers:
            layer = _table("component", layer, known, {"name"})
            name = layer["name"]
            place = f"component '{checks.shown(name)}'"
            checks.check_name(place, name)
            if name in self._templates:
                raise RecordsError(f"{place}: there are two of this name; rename one")
            component = Component(
                name,
                layer.get("optional", False),
                checks.rate_bps(place, layer["rate"]) if "rate" in layer else None,
                checks.promise(place, layer["promise"]) if "promise" in layer else None,
                checks.seconds(place, layer["deadline"]) if "deadline" in layer else None,
            )
            self._templates[name] = _template(place, layer)
            found.append(component)
        return found

    def _counted(self, keys: Any) -> None:
        place = "the set"
        keys = _table(place, keys, {"count": int, "name": str}, {"count"})
        self.count: int = keys["count"]
        if not 0 <= self.count <= checks.RECORDS_MAX:
            raise checks.refuse(place, "records.count", self.count, f"up to {checks.RECORDS_MAX} records are possible")
        text = keys.get("name", "{n}")
        try:
            self._pattern = Pattern(text)
        except ValueError as error:
            raise checks.refuse(place, "records.name", text, str(error)) from None
        if self._pattern.has_name:
            raise checks.refuse(place, "records.name", text, "a name cannot contain itself; write {n}")
        if self.count > 1 and not self._pattern.varies:
            raise checks.refuse(place, "records.name", text, "all records would have this name; write {n} in it")
        # The last record has the longest names and the largest offsets.
        for number in (0, max(self.count - 1, 0)):
            name = self._pattern.text(number, "")
            checks.check_name(f"record '{checks.shown(name)}'", name)
            for component in self.components:
                self._check_template(component, number, name)

    def _list(self, layers: Sequence[Any]) -> None:
        self.count = len(layers)
        if self.count > checks.RECORDS_MAX:
            raise RecordsError(f"the set: it has {self.count} records; up to {checks.RECORDS_MAX} are possible")
        for number, layer in enumerate(layers):
            layer = _table(f"record {number}", layer, {"name": str, "parts": dict}, {"name"})
            name = layer["name"]
            checks.check_name(f"record '{checks.shown(name)}'", name)
            parts = {}
            for key, value in layer.get("parts", {}).items():
                if key not in self._templates:
                    reason = f"no component has this name; there are {', '.join(self._templates)}"
                    raise checks.refuse(f"record '{checks.shown(name)}'", "parts", key, reason)
                parts[key] = _location(f"record '{checks.shown(name)}', '{checks.shown(key)}'", value)
            for component in self.components:
                if component.name not in parts:
                    self._check_template(component, number, name)
            self._listed.append(Listed(name, parts))
        self._by_name = sorted(range(self.count), key=self.record_name)
        for one, other in zip(self._by_name, self._by_name[1:], strict=False):
            if self._listed[one].name == self._listed[other].name:
                name = checks.shown(self._listed[one].name)
                raise RecordsError(f"record '{name}': there are two of this name, number {one + 1} and {other + 1}; rename one")

    def _check_template(self, component: Component, number: int, name: str) -> None:
        """The part of a record that only its component places is possible."""
        template = self._templates[component.name]
        place = f"record '{checks.shown(name)}', '{checks.shown(component.name)}'"
        if template is None:
            if not component.is_optional:
                raise RecordsError(f'{place}: its component has no file; add file = "…" to the component, or mark it optional = true')
            return
        location = template.location(number, name)
        checks.check_path(place, location.file)
        check_extents(place, location.extents)

    def record_name(self, number: int) -> str:
        """Name of a record, which exists."""
        return self._listed[number].name if self._listed else self._pattern.text(number, "")

    def find(self, name: str) -> int | None:
        """Number of the record with this name. O(log records)."""
        if not self._listed:
            number = self._pattern.number(name) if self._pattern.varies else 0 if self._pattern.text(0, "") == name else None
            return number if number is not None and number < self.count else None
        at = bisect.bisect_left(self._by_name, name, key=self.record_name)
        return self._by_name[at] if at < self.count and self.record_name(self._by_name[at]) == name else None

    def location(self, number: int, component: str) -> Location | None:
        """Place of a component of a record; ``None``: the record is without it."""
        if self._listed and component in self._listed[number].parts:
            return self._listed[number].parts[component]
        template = self._templates.get(component)
        return template.location(number, self.record_name(number)) if template is not None else None


def from_text(text: str, *, is_json: bool) -> Manifest:
    """Reads a manifest in JSON or TOML."""
    if is_json:
        try:
            return Manifest(json.loads(text, object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no_number))
        except RecursionError:
            raise RecordsError("the text is nested too deeply for a manifest") from None
        except json.JSONDecodeError as error:
            raise RecordsError(f"line {error.lineno}: {error.msg}") from None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError:
            raise RecordsError("Python 3.10 does not read TOML: install tomli, or write the manifest as JSON") from None
    try:
        return Manifest(tomllib.loads(text))
    except RecursionError:
        raise RecordsError("the text is nested too deeply for a manifest") from None
    except tomllib.TOMLDecodeError as error:
        raise RecordsError(str(error)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, of which no key is there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise RecordsError(f"the key '{checks.shown(twice)}' is there twice; take one out")
    return found


def _integer(text: str) -> int | float:
    """A number without a fraction. In Rust, -0 is one that has a sign."""
    try:
        return -0.0 if text == "-0" else int(text)
    except ValueError:
        raise RecordsError(f"the number {checks.shown(text)} is too long") from None


def _no_number(text: str) -> None:
    """NaN and infinite numbers are none in JSON."""
    raise RecordsError(f"{text} is no number in JSON")


def _table(place: str, keys: Any, known: Mapping[str, type], needed: Collection[str] = ()) -> dict[str, Any]:
    """The keys of a table, whose values have the known types."""
    if not isinstance(keys, dict):
        raise RecordsError(f"{place}: a table of keys is expected in place of {checks.shown(keys)}")
    for key, value in keys.items():
        if key not in known:
            raise RecordsError(f"{place}: unknown key '{checks.shown(key)}'; there are {', '.join(known)}")
        if _is_absent(key, value, needed):
            continue
        if known[key] is not object and (not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not bool)):
            raise checks.refuse(place, key, value, f"a value of the type {known[key].__name__} is expected")
    for key in needed:
        if key not in keys:
            raise RecordsError(f"{place}: {key} is missing; add it")
    return {key: value for key, value in keys.items() if not _is_absent(key, value, needed)}


def _is_absent(key: str, value: Any, needed: Collection[str]) -> bool:
    """True for null, which JSON can have in place of a value that may be missing."""
    return value is None and key not in needed and key not in _DEFAULTED


def _template(place: str, layer: Mapping[str, Any]) -> Files | Strided | None:
    given = {key: checks.size(place, key, layer[key]) for key in ("size", "offset", "stride") if key in layer}
    if "file" not in layer:
        if given:
            raise RecordsError(f'{place}: it has a place, but no file; add file = "…"')
        return None
    file: str = layer["file"]
    try:
        pattern = Pattern(file)
    except ValueError as error:
        raise checks.refuse(place, "file", file, str(error)) from None
    # A number and a letter are as good as any.
    checks.check_path(place, pattern.text(0, "a"))
    if pattern.varies:
        if given.keys() - {"size"}:
            raise RecordsError(f"{place}: offset and stride are for one file that has all records; the file here is another for each")
        return Files(pattern, given.get("size"))
    if "size" not in given:
        raise RecordsError(
            f"{place}: one file has all records, so their size is needed: add size, and stride if they are apart; "
            "or write {n} or {name} in file"
        )
    return Strided(file, given.get("offset", 0), given.get("stride", given["size"]), given["size"])


def check_extents(place: str, extents: tuple[Extent, ...] | None) -> None:
    """The extents are possible."""
    if extents is None:
        return
    if len(extents) > checks.EXTENTS_MAX:
        raise RecordsError(f"{place}: it has {len(extents)} extents; up to {checks.EXTENTS_MAX} are possible")
    is_beyond = any(extent.offset + extent.size > checks.OFFSET_MAX for extent in extents)
    if is_beyond or sum(extent.size for extent in extents) > checks.PART_BYTES_MAX:
        raise RecordsError(f"{place}: it has more bytes, or ends further on, than a file can")


def _location(place: str, value: Any) -> Location:
    if isinstance(value, str):
        return Location(checks.check_path(place, value), None)
    keys = _table(place, value, {"file": str, "offset": object, "size": object, "extents": list}, {"file"})
    file = checks.check_path(place, keys["file"])
    if "extents" in keys:
        if "offset" in keys or "size" in keys:
            raise RecordsError(f"{place}: it has extents and offset or size; give one of them")
        extents = tuple(_extent(place, pair) for pair in keys["extents"])
    elif "size" in keys:
        extents = (Extent(checks.size(place, "offset", keys.get("offset", 0)), checks.size(place, "size", keys["size"])),)
    elif "offset" in keys:
        raise RecordsError(f"{place}: it has an offset, but no size; add size")
    else:
        return Location(file, None)
    check_extents(place, extents)
    return Location(file, extents)


def _extent(place: str, pair: Any) -> Extent:
    is_pair = isinstance(pair, list) and len(pair) == 2
    if not is_pair or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in pair):
        raise checks.refuse(place, "extents", pair, "an extent is a pair of offset and size in bytes")
    return Extent(*pair)
