"""Manifests of sources: files, Zarr directories, and other directories."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import RecordsError
from . import _checks as checks
from ._arrays import Source, content, failure, rows_per_record
from ._choose import HEADER, Choice, Wanted, choose, order, settle
from ._folders import Folders, numbering
from ._hdf5 import Hdf5, is_hdf5
from ._manifest import Manifest
from ._netcdf3 import NetCdf3
from ._places import Joined, Places, together
from ._write import Plan, Planned
from ._zarr import Zarr, is_zarr

#: Files of a set that are not its records: manifests, and the note of what is there (``apps/records``).
_SET_FILES = ("records.toml", "records.json", ".anabranch-records")
#: Most rows of a record.
_ROWS_MAX = 1 << 40


@dataclass
class Options:
    """What is wanted of a manifest."""

    #: Directory of the set.
    directory: str
    name: str | None = None
    #: Records of a second, such as ``25/s``.
    rate: str | None = None
    along: str | None = None
    per_record: int | None = None
    components: Sequence[Wanted] | None = None
    has_header: bool = True
    #: Path of the manifest, which is no part of the set.
    manifest: str | None = None


@dataclass
class _Parts:
    """Components with their places, in the order of the sources."""

    places: dict[str, Places] = field(default_factory=dict)
    headers: list[str] = field(default_factory=list)
    origin: dict[str, Wanted] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    names: Sequence[str] | None = None
    #: Absolute paths that are no parts of a directory.
    skipped: set[str] = field(default_factory=set)

    def add(self, name: str, places: Places, wanted: Wanted | None, *, is_header: bool = False) -> None:
        if name in self.places:
            raise RecordsError(f"component '{checks.shown(name)}': two sources would give it; name other components with --component")
        checks.check_name(f"component '{checks.shown(name)}'", name)
        self.places[name] = places
        if is_header:
            self.headers.append(name)
        if wanted is not None:
            self.origin[name] = wanted


def build(sources: Sequence[str | os.PathLike[str]], options: Options) -> tuple[Plan, list[str]]:
    """The manifest of the sources, and notes for the user. Raises :class:`RecordsError`."""
    if options.name is not None:
        checks.check_name("the set", options.name)
    if options.rate is not None:
        checks.per_second(options.rate)
    if options.per_record is not None and not 1 <= options.per_record <= _ROWS_MAX:
        raise RecordsError(f"--per-record {options.per_record}: a record has 1 row or more")
    twice = [name for name, count in Counter(one.name for one in options.components or []).items() if count > 1]
    if twice:
        raise RecordsError(f"component '{checks.shown(twice[0])}': it is named twice; a pattern takes several variables into one")
    files, folders = _opened(sources, options)
    parts = _Parts(skipped=_skipped(sources, options))
    matched = _arrays(files, options, parts)
    for source in files:
        source.check_unchanged()
    if folders:
        _add_folders(folders, options, parts, matched)
    for one in options.components or []:
        if one.name not in matched and not one.is_header:
            names = ", ".join(checks.shown(variable.name) for source in files for variable in source.variables[:16])
            reason = f"no source has a variable like '{checks.shown(one.match)}'; there are {names}"
            raise RecordsError(f"component '{checks.shown(one.name)}': {reason}")
    return _plan(options, parts), parts.notes


def _opened(sources: Sequence[str | os.PathLike[str]], options: Options) -> tuple[list[Source], list[tuple[str, str]]]:
    """Files and Zarr directories, and paths of other directories."""
    files: list[Source] = []
    folders: list[tuple[str, str]] = []
    root = os.path.abspath(options.directory)
    skipped = _skipped(sources, options)
    for source in sources:
        path = os.fspath(source)
        whole = os.path.abspath(path)
        file = "" if whole == root else os.path.relpath(whole, root).replace(os.sep, "/")
        if file == ".." or file.startswith("../"):
            reason = f"it is not beneath '{checks.shown(options.directory)}', the directory of the set"
            raise RecordsError(f"'{checks.shown(path)}': {reason}; write the manifest above it, or name another one with --directory")
        if file:
            checks.check_path(f"'{checks.shown(path)}'", file)
        try:
            if os.path.isdir(path) and not is_zarr(path):
                folders.append((path, file))
            else:
                files.append(_source(path, file, skipped - {whole}))
        except OSError as error:
            raise RecordsError(f"'{checks.shown(path)}' cannot be read: {error.strerror or error}") from None
    return files, folders


def _skipped(sources: Sequence[str | os.PathLike[str]], options: Options) -> set[str]:
    """Paths that are no parts of a directory: manifests, and other sources."""
    paths = [os.path.abspath(os.fspath(source)) for source in sources]
    twice = [path for path, count in Counter(paths).items() if count > 1]
    if twice:
        raise RecordsError(f"'{checks.shown(twice[0])}': it is named twice")
    of_set = {os.path.abspath(os.path.join(options.directory, name)) for name in _SET_FILES}
    return {*paths, *of_set, os.path.abspath(options.manifest)} if options.manifest is not None else {*paths, *of_set}


def _source(path: str, file: str, skipped: set[str]) -> Source:
    if os.path.isdir(path):
        return Zarr(path, file, skipped)
    if not os.path.isfile(path):
        raise RecordsError(f"'{checks.shown(path)}': " + ("it is not a file" if os.path.exists(path) else "there is no such file"))
    with open(path, "rb") as opened:
        magic = opened.read(4)
    before = content(path)
    found: Source
    if magic[:3] == b"CDF":
        found = NetCdf3(path, file)
    elif is_hdf5(path):
        found = Hdf5(path, file)
    else:
        raise failure(file, "it is neither netCDF nor HDF5; of other files, name their directory")
    found.whole = (path, before)
    return found


def _arrays(files: Sequence[Source], options: Options, parts: _Parts) -> set[str]:
    """Adds the components of files and Zarr directories; returns names of the wanted ones that they have."""
    wanted = [one for one in options.components if not one.is_header] if options.components is not None else None
    found = [choice for choice in (choose(source, wanted, options.along) for source in files) if choice is not None]
    variables = [one for choice in found for several in choice.components.values() for one in several]
    per_record = options.per_record or rows_per_record(variables)
    for choice in found:
        settle(choice, per_record)
        parts.notes += choice.notes
    columns = [_columns(choice, per_record) for choice in found]
    groups = _grouped(found)
    for group in groups:
        for component, suffix in columns[group[0]]:
            places = [columns[index][component, suffix] for index in group]
            wish = found[group[0]].origin.get(component)
            parts.add(component + suffix, places[0] if len(places) == 1 else Joined(places), wish)
    if options.has_header and found:
        counts = [next(iter(column.values())).count for column in columns]
        rests = [dict(choice.source.rest(choice.chosen, choice.excluded, count)) for choice, count in zip(found, counts, strict=True)]
        header = next((one for one in options.components or [] if one.is_header), None)
        for group in groups:
            own = "" if len(groups) == 1 else "." + os.path.splitext(os.path.basename(found[group[0]].source.file))[0]
            _add_header([rests[index] for index in group], found[group[0]].source, own, parts, header)
    return {one.name for choice in found for one in choice.origin.values()}


def _columns(choice: Choice, per_record: int) -> dict[tuple[str, str], Places]:
    """Places by component, and by the ends of their names."""
    found: dict[tuple[str, str], Places] = {}
    for component, variables in choice.components.items():
        each = [variable.places(per_record) for variable in variables]
        if len(each) == 1:
            found.update({(component, suffix): places for suffix, places in each[0]})
        elif any(len(one) != 1 for one in each):
            reason = "its variables have several files a record; make components of them one by one"
            raise RecordsError(f"component '{checks.shown(component)}': {reason}")
        else:
            found[component, ""] = together(component, [one[0][1] for one in each])
    return found


def _grouped(found: Sequence[Choice]) -> list[list[int]]:
    """Files with the same components follow one another; those with others stand side by side."""
    groups: list[list[int]] = []
    for index, choice in enumerate(found):
        names = choice.components.keys()
        for group in groups:
            other = found[group[0]]
            if names == other.components.keys():
                group.append(index)
                break
            common = sorted(names & other.components.keys())
            if common:
                apart = sorted(names ^ other.components.keys())[0]
                both = f"it and '{checks.shown(other.source.file)}' both have '{checks.shown(common[0])}'"
                reason = f"{both}, but only one has '{checks.shown(apart)}'; name the components that are wanted with --component"
                raise choice.source.fail(reason)
        else:
            groups.append([index])
    return groups


def _add_header(rests: Sequence[dict[str, Places]], source: Source, own: str, parts: _Parts, wanted: Wanted | None) -> None:
    """Adds the rest of files that follow one another, to the first record of each."""
    if any(rest.keys() != rests[0].keys() for rest in rests):
        raise source.fail("the rest of it has other files than the following ones have; make no component of it (--no-header)")
    # An array may have this name.
    name = HEADER if HEADER not in parts.places or HEADER in parts.headers else f"file-{HEADER}"
    for suffix in rests[0]:
        places = [rest[suffix] for rest in rests]
        parts.add(name + own + suffix, places[0] if len(places) == 1 else Joined(places), wanted, is_header=True)


def _add_folders(folders: Sequence[tuple[str, str]], options: Options, parts: _Parts, matched: set[str]) -> None:
    found = Folders(folders, parts.skipped)
    wanted = options.components
    if wanted is not None:
        wanted = [one for one in wanted if not one.is_header and (one.name not in matched or one.is_open)]
    parts.names, columns, origin = found.components(wanted)
    matched.update(one.name for one in origin.values())
    for name, places in columns.items():
        lacking = sum(file is None for file in places.files)
        if lacking and name not in origin:
            parts.notes.append(f"component '{checks.shown(name)}': {lacking} of {places.count} records are without it, so it is optional")
        parts.add(name, places, origin.get(name))


def _plan(options: Options, parts: _Parts) -> Plan:
    plain = [name for name in parts.places if name not in parts.headers]
    if not plain:
        raise RecordsError("none of the sources has a component that is wanted; name others with --component")
    if len(parts.places) > checks.COMPONENTS_MAX:
        reason = f"up to {checks.COMPONENTS_MAX} are possible; put several variables in one (--component NAME=PATTERN), or take fewer"
        raise RecordsError(f"the set would have {len(parts.places)} components; {reason}")
    count = parts.places[plain[0]].count
    for name in plain:
        if parts.places[name].count != count:
            reason = f"'{checks.shown(plain[0])}' has {count} records, '{checks.shown(name)}' has {parts.places[name].count}"
            raise RecordsError(f"components have different numbers of records: {reason}; name those that are wanted with --component")
    if count > checks.RECORDS_MAX:
        reason = f"up to {checks.RECORDS_MAX} are possible; put more rows in one (--per-record)"
        raise RecordsError(f"the set would have {count} records; {reason}")
    digits = len(str(count - 1))
    names: Sequence[str] | str = f"{{n:0{digits}}}" if digits > 1 else "{n}"
    if parts.names is not None:
        names = numbering(parts.names) or parts.names
    components = []
    for name in order(plain, parts.headers, options.components, parts.origin):
        places, wanted = parts.places[name], parts.origin.get(name)
        is_optional = places.lacking() is not None or (wanted is not None and wanted.is_optional)
        components.append(Planned(name, places, is_optional, wanted))
    plan = Plan(options.name, options.rate, components, count, names)
    keys: dict[str, object] = {"component": [component.keys() for component in components]}
    if plan.is_counted:
        keys["records"] = {"count": count, "name": names}
    if options.rate is not None:
        keys["rate"] = options.rate
    Manifest(keys)
    return plan
