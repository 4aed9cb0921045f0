"""The lab's program as a child process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ..errors import LabError

#: Time that the program has to end after a request, in seconds.
_END_S = 5.0
#: Lines of its report that an error repeats at most.
_LINES_MAX = 20
#: Longest line of its report, in bytes.
_LINE_BYTES_MAX = 1 << 20

Progress = Callable[[str], object] | None


def _command(arguments: list[str]) -> list[str]:
    """The program that was installed with this package, or the one on PATH."""
    installed = Path(sysconfig.get_path("scripts")) / "anabranch"
    program = str(installed) if installed.is_file() else shutil.which("anabranch")
    if program is None:
        raise LabError(f"the program anabranch is neither at {installed} nor on PATH; install the wheel of this package again")
    return [program, "lab", *arguments]


class _Report:
    """Lines that the program reports: the last ones are those of its error."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        text = line.rstrip("\n")
        if not text:
            return
        self._lines = [*self._lines[1 - _LINES_MAX :], text]
        if self._progress is not None:
            self._progress(text)

    def check(self, code: int) -> None:
        if code == 0:
            return
        own = [line for line in self._lines if line.startswith(("anabranch", "error:"))]
        text = "\n".join(own or self._lines) or f"the lab's program ended with the code {code} and said nothing"
        raise LabError(text, code=code)


def output(arguments: list[str]) -> str:
    """Output of the program."""
    report = _Report(None)
    done = subprocess.run(_command(arguments), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    for line in done.stderr.splitlines():
        report.add(line)
    report.check(done.returncode)
    return done.stdout


def run(arguments: list[str], progress: Progress) -> None:
    """Runs the program to its end."""
    report = _Report(progress)
    process = subprocess.Popen(
        _command(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        errors: IO[str] | None = process.stderr
        assert errors is not None
        for line in errors:
            report.add(line)
        code = process.wait()
    except BaseException:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    finally:
        if process.stderr is not None:
            process.stderr.close()
    report.check(code)


async def run_async(arguments: list[str], progress: Progress) -> None:
    """As ``run``, in the event loop."""
    report = _Report(progress)
    process = await asyncio.create_subprocess_exec(
        *_command(arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        limit=_LINE_BYTES_MAX,
    )
    try:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            report.add(line.decode(errors="replace"))
        code = await process.wait()
    except BaseException:
        await asyncio.shield(_end(process))
        raise
    report.check(code)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _END_S)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
