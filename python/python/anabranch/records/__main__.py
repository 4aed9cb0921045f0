"""The command ``python -m anabranch.records``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence

from ..errors import RecordsError
from . import _checks as checks
from ._build import Options, build
from ._choose import Wanted
from ._write import Plan, text

_EPILOG = """\
A component is NAME[=MATCH][,rate=RATE][,promise=SHARE][,deadline=TIME][,optional], the most important first. MATCH is a variable, or a
pattern of variables, which become one component (numbers=u*); of directories, a pattern of files whose one * is the record's name
(image=images/*.png). Without it, it is NAME. A NAME with * takes all that are like it, each as a component. 'header' is the rest of a file.
Without --component, all variables along the dimension, and all files, become components.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.records",
        description="Writes the manifest of a record set, from netCDF, HDF5 and Zarr, and from directories of files.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="files, Zarr directories, or directories of other files")
    parser.add_argument("-o", "--output", metavar="FILE", help="the manifest, .toml or .json; it is replaced [default: TOML is printed]")
    parser.add_argument("--directory", help="directory of the set, above the sources [default: that of the manifest, or the current one]")
    parser.add_argument("--name", help="name of the set [default: that of the manifest without its ending]")
    parser.add_argument("--rate", help="records of a second while the set is watched, such as 25/s")
    parser.add_argument("--along", metavar="DIM", help="dimension of the records [default: the unlimited one, or the largest array's]")
    parser.add_argument("--per-record", type=int, metavar="ROWS", help="its steps in a record [default: those of a compressed chunk, or 1]")
    parser.add_argument("--component", action="append", metavar="COMPONENT", help="a component; repeat it for several")
    parser.add_argument("--no-header", action="store_true", help="leave out what else is in the files, without which they cannot be opened")
    return parser


def _write(pieces: Iterator[str], path: str) -> None:
    """Writes a file as a whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=".manifest-", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _summary(plan: Plan) -> str:
    names = ", ".join(checks.shown(component.name) for component in plan.components)
    return f"{plan.count} records of {names}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    given = _parser().parse_args(arguments)
    output: str | None = given.output
    try:
        if output is not None and not output.endswith((".toml", ".json")):
            raise RecordsError(f"'{checks.shown(output)}': the name of a manifest ends in .toml or .json")
        options = Options(
            directory=given.directory or (os.path.dirname(output) or "." if output is not None else "."),
            name=given.name,
            rate=given.rate,
            along=given.along,
            per_record=given.per_record,
            components=[Wanted.read(component) for component in given.component] if given.component else None,
            has_header=not given.no_header,
            manifest=output,
        )
        plan, notes = build(given.sources, options)
        if output is None:
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8")
            sys.stdout.writelines(text(plan, is_json=False))
        else:
            _write(text(plan, is_json=output.endswith(".json")), output)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (RecordsError, OSError) as error:
        words = str(error) if isinstance(error, RecordsError) else f"'{checks.shown(error.filename or output)}': {error.strerror}"
        print(f"anabranch.records: {words}", file=sys.stderr)
        return 1
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(_summary(plan), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
