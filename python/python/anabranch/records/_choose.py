"""Components that are wanted, and variables that give them."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import RecordsError
from . import _checks as checks
from ._arrays import Dimension, Source, Variable

#: Name of the component that has the rest of a file.
HEADER = "header"
_KEYS = ("rate", "promise", "deadline", "optional")


@dataclass(frozen=True)
class Wanted:
    """A component that is wanted: ``NAME[=MATCH][,rate=…][,promise=…][,deadline=…][,optional]``."""

    name: str
    #: Variable, or pattern of variables or files.
    match: str
    rate: str | None = None
    promise: float | None = None
    deadline: str | None = None
    is_optional: bool = False

    @property
    def is_header(self) -> bool:
        """True if it is the rest of the files."""
        return self.name == self.match == HEADER

    @property
    def is_open(self) -> bool:
        """True if each match is a component with the name of its variable."""
        return "*" in self.name

    @classmethod
    def read(cls, text: str) -> Wanted:
        """Reads a component as the command has it."""
        head, *settings = text.split(",")
        name, _, match = head.partition("=")
        place = f"component '{checks.shown(name)}'"
        if "*" not in name:
            fault = checks.name_fault(name)
            if fault is not None and not match:
                example = name.replace("/", ".") if checks.name_fault(name.replace("/", ".")) is None else "NAME"
                raise RecordsError(f"{place}: {fault}; write {checks.shown(example)}={checks.shown(name)}")
            checks.check_name(place, name)
        elif match:
            raise RecordsError(f"{place}: a name with '*' is a pattern of variables; write nothing after it")
        values: dict[str, str] = {}
        for setting in settings:
            key, sign, value = setting.strip().partition("=")
            if key not in _KEYS or key in values or bool(sign) == (key == "optional"):
                reason = f"'{checks.shown(setting)}' is not possible; there are rate=…, promise=…, deadline=… and optional, each once"
                raise RecordsError(f"{place}: {reason}")
            values[key] = value
        if "rate" in values:
            checks.rate_bps(place, values["rate"])
        if "deadline" in values:
            checks.seconds(place, values["deadline"])
        promise = None
        if "promise" in values:
            try:
                promise = float(values["promise"])
            except ValueError:
                promise = 0.0
            checks.promise(place, promise)
        return cls(name, match or name, values.get("rate"), promise, values.get("deadline"), "optional" in values)


@dataclass
class Choice:
    """What a source gives: variables by component, in the order of the components."""

    source: Source
    dimension: Dimension
    components: dict[str, list[Variable]]
    #: Components as they were asked for.
    origin: dict[str, Wanted]
    #: Names of the variables of the components.
    chosen: set[str] = field(default_factory=set)
    #: Names of variables whose data is in no component, not even in the header.
    excluded: set[str] = field(default_factory=set)
    #: Reports for the user.
    notes: list[str] = field(default_factory=list)


def choose(source: Source, wanted: Sequence[Wanted] | None, along: str | None) -> Choice | None:
    """Variables of a source and the dimension that they have in common; ``None``: nothing of it is wanted."""
    origin: dict[str, Wanted] = {}
    picked = _picked(source, wanted, origin) if wanted is not None else None
    if picked is not None and not picked:
        return None
    # Without a dimension of their own, those that a pattern takes follow the others.
    named = [one for name, several in (picked or {}).items() for one in several if not origin[name].is_open]
    opened = [one for name, several in (picked or {}).items() for one in several if origin[name].is_open]
    dimension = _dimension(source, named or opened or source.variables, along)
    if picked is not None:
        fitting = {name for name, several in picked.items() if several[0].first.key == dimension.key or not origin[name].is_open}
        picked = {name: several for name, several in picked.items() if name in fitting}
    else:
        picked = {}
        for variable in source.variables:
            if variable.first.key == dimension.key:
                _add(source, picked, component_name(variable.name), variable)
    for variables in picked.values():
        for variable in variables:
            if variable.first.key != dimension.key:
                reason = f"its first dimension is {variable.first}, not {dimension}; only steps of the first dimension lie together"
                raise source.fail(f"{reason}: take it out, or name the dimension with --along", variable.name)
            if variable.refusal is not None:
                raise source.fail(f"{variable.refusal}; name the other variables with --component", variable.name)
            if variable.first.length != dimension.length:
                raise source.fail(f"it has {variable.first.length} steps, others have {dimension.length}", variable.name)
    if dimension.length == 0:
        raise source.fail(f"its dimension {dimension} has no steps, so there are no records yet")
    optional = {one.name for name, several in picked.items() for one in several if name in origin and origin[name].is_optional}
    source.is_optional = optional.__contains__
    return Choice(source, dimension, picked, origin)


def component_name(variable: str) -> str:
    """Name of the component of a variable: groups are separated by dots."""
    return variable.replace("/", ".")


def settle(choice: Choice, per_record: int) -> None:
    """Leaves in the header what records of so many rows cannot have, and finds what is not in it."""
    for name, variables in list(choice.components.items()):
        is_explicit = name in choice.origin and not choice.origin[name].is_open
        unfit = [variable for variable in variables if not variable.fits(per_record)]
        for variable in unfit:
            reason = f"{variable.unit} of its rows are one piece, but a record has {per_record}"
            if is_explicit or len(variable.shape) > 1:
                raise choice.source.fail(f"{reason}; take it out, or set the rows of a record with --per-record", variable.name)
            choice.notes.append(str(choice.source.fail(f"{reason}: it is in the header", variable.name)))
        if unfit:
            del choice.components[name]
    if not choice.components:
        raise choice.source.fail("none of its arrays has rows that can be separated; set the rows of a record with --per-record")
    large = (one for one in choice.source.variables if one.first.key == choice.dimension.key and len(one.shape) > 1)
    choice.chosen = {one.name for several in choice.components.values() for one in several}
    choice.excluded = {one.name for one in large} - choice.chosen


def _picked(source: Source, wanted: Sequence[Wanted], origin: dict[str, Wanted]) -> dict[str, list[Variable]]:
    found: dict[str, list[Variable]] = {}
    taken: set[str] = set()
    for one in sorted(wanted, key=lambda one: one.is_open):
        exact = [variable for variable in source.variables if variable.name == one.match]
        for variable in exact or [variable for variable in source.variables if fnmatch.fnmatchcase(variable.name, one.match)]:
            if variable.name in taken and one.is_open:
                continue
            if variable.name in taken:
                raise source.fail("two components would have it", variable.name)
            taken.add(variable.name)
            name = component_name(variable.name) if one.is_open else one.name
            _add(source, found, name, variable, is_group=not one.is_open)
            origin[name] = one
    return found


def _add(source: Source, found: dict[str, list[Variable]], name: str, variable: Variable, *, is_group: bool = False) -> None:
    if name in found and not is_group:
        reason = f"'{checks.shown(found[name][0].name)}' would be the same component, {checks.shown(name)}; name them with --component"
        raise source.fail(reason, variable.name)
    fault = checks.name_fault(name)
    if fault is not None:
        reason = f"'{checks.shown(name)}' cannot be the name of a component: {fault}; give it another one with --component NAME=PATTERN"
        raise source.fail(reason, variable.name)
    found.setdefault(name, []).append(variable)


def _dimension(source: Source, candidates: Sequence[Variable], along: str | None) -> Dimension:
    found: dict[str | int, Dimension] = {}
    for variable in candidates:
        found.setdefault(variable.first.key, variable.first)
    every = ", ".join(str(dimension) for dimension in list(found.values())[:32])
    if not found:
        raise source.fail("it has no arrays, so there is nothing to make records of")
    if along is not None:
        if along not in found:
            raise source.fail(f"no array has the first dimension '{checks.shown(along)}'; there are {every}")
        return found[along]
    unlimited = [dimension for dimension in found.values() if dimension.is_unlimited]
    if len(unlimited) == 1:
        return unlimited[0]
    largest = max(candidates, key=lambda variable: (len(variable.shape) > 1, variable.bytes))
    return found[largest.first.key]


def order(names: Sequence[str], headers: Sequence[str], wanted: Sequence[Wanted] | None, origin: Mapping[str, Wanted]) -> list[str]:
    """Components in the order in which they are wanted; headers that were not asked for come first."""
    places = {one.name: place for place, one in enumerate(wanted or [])}

    def place(name: str) -> int:
        return places[origin[name].name] if name in origin else -1 if name in headers else len(places)

    return sorted([*headers, *names], key=place)
