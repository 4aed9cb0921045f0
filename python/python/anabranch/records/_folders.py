"""Directories: files of the same stem are a record, and their folder or ending is the component."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..errors import RecordsError
from . import _checks as checks
from ._choose import Wanted
from ._places import Listed, is_plain

#: Endings that follow another one.
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
#: Files of a set.
_FILES_MAX = 10_000_000


class Folders:
    """Files of directories."""

    def __init__(self, folders: Sequence[tuple[str, str]], skipped: Collection[str]) -> None:
        #: Paths beneath their source, after those of the sources.
        self._inner: list[tuple[str, str]] = []
        self.name = ", ".join(checks.shown(file or ".") for _, file in folders)
        for path, file in folders:
            self._walk(path, file, skipped)

    def _walk(self, path: str, file: str, skipped: Collection[str]) -> None:
        found = []
        for prefix, folders, files in checks.walk(path, skipped):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                if not name.startswith(".") and os.path.isfile(os.path.join(path, prefix, name)):
                    found.append(prefix + name)
        self._inner += [(file + "/" if file else "", inner) for inner in sorted(found, key=natural)]
        if len(self._inner) > _FILES_MAX:
            raise RecordsError(f"'{self.name}': it has more than {_FILES_MAX} files")

    def components(self, wanted: Sequence[Wanted] | None) -> tuple[list[str], dict[str, Listed], dict[str, Wanted]]:
        """Names of the records, the parts of each component, and the components as they were asked for."""
        origin: dict[str, Wanted] = {}
        grouped = self._by_ending() if wanted is None else self._wanted(wanted, origin)
        names = sorted({name for files in grouped.values() for name in files}, key=natural)
        for name in names:
            fault = checks.name_fault(name)
            if fault is not None:
                example = next(files[name] for files in grouped.values() if name in files)
                reason = f"the record's name would be '{checks.shown(name)}': {fault}; rename the file"
                raise RecordsError(f"'{checks.shown(example)}': {reason}")
        if not names:
            raise RecordsError(f"'{self.name}': there are no files to make records of")
        found = {}
        for component, files in grouped.items():
            places = Listed([files.get(name) for name in names], _pattern(files, names))
            lacking = places.lacking()
            if component in origin and lacking is not None and not origin[component].is_optional:
                reason = f"record '{checks.shown(names[lacking])}' has no such file; add it, or make the component optional"
                raise RecordsError(f"component '{checks.shown(component)}': {reason}")
            found[component] = places
        return names, found, origin

    def _by_ending(self) -> dict[str, dict[str, str]]:
        """Paths by component and record."""
        keys: dict[tuple[str, str], dict[str, str]] = {}
        are_several = len({source for source, _ in self._inner}) > 1
        for source, inner in self._inner:
            folder, _, name = inner.rpartition("/")
            stem, ending = _split(name)
            # Several sources are folders of one.
            folder = folder or (source.rstrip("/").rpartition("/")[2] if are_several else "")
            files = keys.setdefault((folder, ending), {})
            if stem in files:
                both = f"'{checks.shown(source + inner)}' and '{checks.shown(files[stem])}'"
                raise RecordsError(f"{both} would be the same part; use --component")
            files[stem] = source + inner
        folders = [folder for folder, _ in keys]
        found: dict[str, dict[str, str]] = {}
        for (folder, ending), files in keys.items():
            plain = folder.replace("/", ".")
            component = (plain if folders.count(folder) == 1 else plain + ending) if folder else ending[1:] or "file"
            if component in found:
                raise RecordsError(f"'{self.name}': two components would have the name '{checks.shown(component)}'; use --component")
            found[component] = files
        return found

    def _wanted(self, wanted: Sequence[Wanted], origin: dict[str, Wanted]) -> dict[str, dict[str, str]]:
        """Paths by component and record: those of patterns, and components as they are found without any."""
        plain = self._by_ending() if any(one.is_open or "*" not in one.match for one in wanted) else {}
        found: dict[str, dict[str, str]] = {}
        for one in sorted(wanted, key=lambda one: one.is_open):
            place = f"component '{checks.shown(one.name)}'"
            if one.is_open:
                picked = {name: files for name, files in plain.items() if fnmatch.fnmatchcase(name, one.name) and name not in found}
            elif "*" in one.match:
                picked = {one.name: self._like(place, one.match)}
            else:
                picked = {one.name: plain.get(one.match, {})}
            if not any(picked.values()):
                raise RecordsError(f"{place}: no variable and no files are like '{checks.shown(one.match)}'; there are {_few(plain)}")
            found |= picked
            origin |= dict.fromkeys(picked, one)
        self._check_single(found)
        return found

    def _like(self, place: str, glob: str) -> dict[str, str]:
        """Files of a pattern with one ``*``, which is the record's name."""
        if glob.count("*") != 1:
            reason = "a pattern of files has one '*', which is the record's name, such as images/*.png"
            raise RecordsError(f"{place}: '{checks.shown(glob)}': {reason}")
        before, after = map(re.escape, glob.split("*"))
        shape = re.compile(f"{before}([^/]+){after}", re.DOTALL)
        files: dict[str, str] = {}
        for source, inner in self._inner:
            match = shape.fullmatch(inner)
            if match is not None and match[1] in files:
                other = checks.shown(files[match[1]])
                raise RecordsError(f"{place}: '{checks.shown(source + inner)}' would be the same part as '{other}'")
            if match is not None:
                files[match[1]] = source + inner
        return files

    def _check_single(self, found: Mapping[str, Mapping[str, str]]) -> None:
        """No file is in two parts."""
        taken: dict[str, str] = {}
        for component, files in found.items():
            for file in files.values():
                if file in taken:
                    names = f"'{checks.shown(taken[file])}' and '{checks.shown(component)}'"
                    raise RecordsError(f"'{checks.shown(file)}': it would be in the components {names}")
                taken[file] = component


def _few(names: Iterable[str]) -> str:
    """Names for an error."""
    return ", ".join(map(checks.shown, list(names)[:32])) or "none"


def _split(name: str) -> tuple[str, str]:
    """Stem and ending: ``scan.nii.gz`` has the ending ``.nii.gz``."""
    stem, ending = os.path.splitext(name)
    if ending in _COMPRESSED:
        stem, before = os.path.splitext(stem)
        ending = before + ending
    return stem, ending


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Key for the order in which people count: ``2`` before ``10``."""
    pieces = re.split("([0-9]+)", text)
    key = tuple((int(piece[:4000]) if index % 2 else 0, piece) for index, piece in enumerate(pieces))
    return key


def _pattern(files: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The path of all files with ``{name}`` in place of the record's name; ``None``: they do not follow one."""
    if len(files) < len(names):
        return None
    first = files[names[0]]
    for at in _places_of(names[0], first):
        before, after = first[:at], first[at + len(names[0]) :]
        if is_plain(before + after) and all(files[name] == before + name + after for name in names):
            return before + "{name}" + after
    return None


def _places_of(name: str, path: str) -> Sequence[int]:
    """Places at which the name is in the path, the last first."""
    return [at for at in range(len(path) - len(name), -1, -1) if path.startswith(name, at)]


def numbering(names: Sequence[str]) -> str | None:
    """The pattern of names that are numbers from 0 with a fixed text around them; ``None``: there is none."""
    found = re.fullmatch(r"(.*?)(0+)([^0-9]*)", names[0])
    if found is None or not is_plain(found[1] + found[3]):
        return None
    before, digits, after = found[1], len(found[2]), found[3]
    if digits > 20 or any(name != f"{before}{number:0{digits}}{after}" for number, name in enumerate(names)):
        return None
    return f"{before}{{n:0{digits}}}{after}" if digits > 1 else f"{before}{{n}}{after}"
