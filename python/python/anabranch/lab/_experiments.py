"""Experiments by name."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from . import _program
from ._result import Result

#: A file or folder.
PathLike = str | os.PathLike[str]
#: A number, a text, a file, ``True`` for a flag, or a list of these for a flag that may be repeated.
Setting = int | float | str | bool | os.PathLike[str] | Sequence[int | float | str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that ``run`` knows."""

    #: Its name, for :func:`run`.
    name: str
    #: Its contents in one sentence, with the source of what it reproduces.
    summary: str
    #: True if it runs on recordings of paths: ``traces``.
    takes_recordings: bool
    #: True if it can run between nodes on this machine, by its clock: ``live``.
    runs_live: bool


def experiments() -> list[Experiment]:
    """All experiments. Raises ``LabError`` if the lab's program is not there."""
    lines = _program.output(["list", "--json"]).splitlines()
    return [Experiment(**json.loads(line)) for line in lines if line.strip()]


def _flags(traces: Sequence[PathLike] | PathLike | None, settings: dict[str, Setting]) -> list[str]:
    given = dict(settings)
    if traces is not None:
        given["traces"] = [traces] if isinstance(traces, str | os.PathLike) else list(traces)
    flags: list[str] = []
    for name, value in given.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            flags += [flag] if value else []
        elif isinstance(value, int | float | str | os.PathLike):
            flags.append(f"{flag}={_word(value)}")
        else:
            flags += [f"{flag}={_word(item)}" for item in value]
    return flags


def _word(value: int | float | str | os.PathLike[str]) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _arguments(
    name: str, file: str, traces: Sequence[PathLike] | PathLike | None, seed: int, seeds: int,
    is_quiet: bool, settings: dict[str, Setting],
) -> list[str]:  # fmt: skip
    if name.startswith("-"):
        raise LabError(f"{name!r} is not the name of an experiment")
    for own in ("json", "quiet"):
        if own in settings:
            raise TypeError(f"run() sets {own} itself")
    flags = [f"--seed={seed}", f"--seeds={seeds}", *_flags(traces, settings)]
    return ["run", name, "--json=" + file, *(["--quiet"] if is_quiet else []), *flags]


def run(
    name: str,
    *,
    traces: Sequence[PathLike] | PathLike | None = None,
    seed: int = 1,
    seeds: int = 1,
    progress: Callable[[str], object] | None = None,
    **settings: Setting,
) -> Result:
    """Runs an experiment, which may take seconds to minutes, and returns its figures.

    ``traces``: recordings to run on, or folders of them: CSV with a header naming ``t_s`` and ``bandwidth_bps``, ``rtt_ms`` or
    ``loss``; ``None``: those that travel with the program. ``seed``: that of the first run. ``seeds``: number of runs, with
    consecutive seeds. ``progress``: called with each line that the program reports, such as ``print``. ``settings``: further
    flags of ``anabranch lab run``, such as ``only="lte"``, ``out="folder"`` (plots, CSV) or ``live=60``.

    Raises ``LabError`` with the program's own words. An interrupt, or an exception in ``progress``, ends the program.
    """
    with tempfile.TemporaryDirectory(prefix="anabranch-lab-") as folder:
        file = os.path.join(folder, "result.json")
        arguments = _arguments(name, file, traces, seed, seeds, progress is None, settings)
        _program.run(arguments, progress)
        return Result._read(Path(file))


async def run_async(
    name: str,
    *,
    traces: Sequence[PathLike] | PathLike | None = None,
    seed: int = 1,
    seeds: int = 1,
    progress: Callable[[str], object] | None = None,
    **settings: Setting,
) -> Result:
    """As :func:`run`, without holding up the event loop. Cancelled, it ends the program."""
    with tempfile.TemporaryDirectory(prefix="anabranch-lab-") as folder:
        file = os.path.join(folder, "result.json")
        arguments = _arguments(name, file, traces, seed, seeds, progress is None, settings)
        await _program.run_async(arguments, progress)
        return Result._read(Path(file))
