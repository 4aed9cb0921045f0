"""Texts of manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import RecordsError
from . import _checks as checks
from ._choose import Wanted
from ._manifest import Location, check_extents
from ._places import Places


@dataclass(frozen=True)
class Planned:
    """A component of a manifest."""

    name: str
    places: Places
    is_optional: bool
    wanted: Wanted | None

    def keys(self) -> dict[str, object]:
        """Its keys."""
        found: dict[str, object] = {"name": self.name}
        found.update(self.places.template or {})
        if self.is_optional:
            found["optional"] = True
        if self.wanted is not None:
            values = {"rate": self.wanted.rate, "promise": self.wanted.promise, "deadline": self.wanted.deadline}
            found.update({key: value for key, value in values.items() if value is not None})
        return found


@dataclass(frozen=True)
class Plan:
    """A manifest to be written."""

    name: str | None
    rate: str | None
    components: Sequence[Planned]
    count: int
    #: Names of records, or their pattern.
    names: Sequence[str] | str

    @property
    def is_counted(self) -> bool:
        """True if the records need no list."""
        return isinstance(self.names, str) and all(component.places.is_regular for component in self.components)

    def record_name(self, number: int) -> str:
        """Name of a record."""
        if not isinstance(self.names, str):
            return self.names[number]
        return re.sub(r"\{n(?::0(\d+))?\}", lambda found: f"{number:0{int(found[1] or 1)}}", self.names)

    def records(self) -> Iterator[tuple[str, dict[str, Location]]]:
        """Names of the records, with the parts that are elsewhere than their component says."""
        for number in range(self.count):
            parts = {}
            name = self.record_name(number)
            for component in self.components:
                if not component.places.follows(number):
                    location = component.places.location(number)
                    if location is not None:
                        place = f"record '{checks.shown(name)}', '{checks.shown(component.name)}'"
                        checks.check_path(place, location.file)
                        check_extents(place, location.extents)
                        parts[component.name] = location
            yield name, parts


def text(plan: Plan, *, is_json: bool) -> Iterator[str]:
    """The text of a manifest, piece by piece. Raises an error where it becomes longer than a manifest may be."""
    length = 0
    for piece in _json(plan) if is_json else _toml(plan):
        length += len(piece.encode())
        if length > checks.TEXT_BYTES_MAX:
            reason = "the list of records is longer than 1 GiB, which a manifest can have; make larger records (--per-record)"
            raise RecordsError(f"{reason}, or leave out the header (--no-header) if all parts are at equal distances")
        yield piece


def _value(location: Location) -> str | dict[str, object]:
    file, extents = location
    if extents is None:
        return file
    if len(extents) != 1:
        return {"file": file, "extents": [list(extent) for extent in extents]}
    [extent] = extents
    return {"file": file, "offset": extent.offset, "size": extent.size} if extent.offset else {"file": file, "size": extent.size}


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(plan: Plan) -> Iterator[str]:
    yield "{\n"
    for key, value in (("name", plan.name), ("rate", plan.rate)):
        if value is not None:
            yield f"  {_dump(key)}: {_dump(value)},\n"
    components = ",\n".join(f"    {_dump(component.keys())}" for component in plan.components)
    yield f'  "component": [\n{components}\n  ],\n'
    if plan.is_counted:
        yield f'  "records": {_dump({"count": plan.count, "name": plan.names})}\n}}\n'
        return
    yield '  "record": ['
    for number, (name, parts) in enumerate(plan.records()):
        record: dict[str, object] = {"name": name}
        if parts:
            record["parts"] = {component: _value(location) for component, location in parts.items()}
        yield f"{',' if number else ''}\n    {_dump(record)}"
    yield "\n  ]\n}\n"


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _dump(name)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(inner)}" for key, inner in value.items()) + " }"
    return _dump(value)


def _lines(keys: Mapping[str, object]) -> str:
    return "".join(f"{_key(key)} = {_inline(value)}\n" for key, value in keys.items())


def _toml(plan: Plan) -> Iterator[str]:
    head = {key: value for key, value in (("name", plan.name), ("rate", plan.rate)) if value is not None}
    tables = [f"[[component]]\n{_lines(component.keys())}" for component in plan.components]
    yield "\n".join([_lines(head), *tables] if head else tables)
    if plan.is_counted:
        yield f"\n[records]\n{_lines({'count': plan.count, 'name': plan.names})}"
        return
    for name, parts in plan.records():
        keys: dict[str, object] = {"name": name}
        if parts:
            keys["parts"] = {component: _value(location) for component, location in parts.items()}
        yield f"\n[[record]]\n{_lines(keys)}"
