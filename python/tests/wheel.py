"""Check of wheels: their tags, the processor and the needs of every program in them, and what is in them at all.

    python tests/wheel.py WHEEL…
"""

from __future__ import annotations

import re
import struct
import sys
import zipfile

#: Processors by their number in ELF.
_MACHINES = {62: "x86_64", 183: "aarch64"}
_PROGRAMS = ("anabranch", "anabranch-lab")
#: Files of the package that must be there.
_FILES = ("__init__.py", "py.typed", "_anabranch.pyi", "stats/__init__.py", "lab/__init__.py", "records/__main__.py")
_TAG = re.compile(r"anabranch-[0-9.]+-(cp311-abi3|cp310-cp310)-manylinux_2_(\d+)_(x86_64|aarch64)\.whl")


def machine(data: bytes) -> str:
    """Processor of a program or library."""
    assert data[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
    (number,) = struct.unpack_from("<H", data, 18)
    return _MACHINES.get(number, f"processor {number}")


def newest_glibc(data: bytes) -> int:
    """The newest 2.x of the C library of which it needs a symbol."""
    return max((int(found) for found in re.findall(rb"GLIBC_2\.(\d+)", data)), default=0)


def check(path: str) -> str:
    """Checks a wheel, and describes it."""
    name = path.rpartition("/")[2]
    tag = _TAG.fullmatch(name)
    assert tag is not None, f"{name}: the name is not that of a wheel of this package"
    python, glibc, processor = tag.group(1), int(tag.group(2)), tag.group(3)
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(one for one in names if one.endswith(".dist-info/WHEEL"))).decode()
        assert f"Tag: {python}-manylinux_2_{glibc}_{processor}" in metadata, f"{name}: other tags inside: {metadata}"
        [module] = [one for one in names if one.startswith("anabranch/_anabranch.") and one.endswith(".so")]
        expected = "abi3.so" if python == "cp311-abi3" else f"cpython-310-{processor}-linux-gnu.so"
        assert module.endswith("_anabranch." + expected), f"{name}: the module is {module}"
        for file in _FILES:
            assert f"anabranch/{file}" in names, f"{name}: {file} is missing"
        programs = [one for one in names if one.rpartition("/")[2] in _PROGRAMS and "/scripts/" in one]
        assert len(programs) == len(_PROGRAMS), f"{name}: the programs are {programs}"
        for file in (module, *programs):
            data = wheel.read(file)
            assert machine(data) == processor, f"{name}: {file} is for {machine(data)}"
            assert newest_glibc(data) <= glibc, f"{name}: {file} needs glibc 2.{newest_glibc(data)}"
            if file in programs:
                mode = wheel.getinfo(file).external_attr >> 16
                assert mode & 0o111, f"{name}: {file} cannot be executed"
    return f"{name}: {python}, {processor}, glibc 2.{glibc}"


if __name__ == "__main__":
    assert sys.argv[1:], "give the wheels"
    for argument in sys.argv[1:]:
        print(check(argument))
