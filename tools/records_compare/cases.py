"""Cases of the comparison: links, what is fetched over them, and the figures of a transfer."""

import dataclasses
import hashlib
import os
import random
import subprocess
import time

from gateway_compare.cases import PAIR_B, PAIR_C
from gateway_compare.network import Failure, Network

BLOCK = 1 << 20
MANIFEST = "records.toml"
SET = "set"


@dataclasses.dataclass(frozen=True)
class Case:
    """Links, and files of one size behind them, in one directory."""

    name: str
    links: list
    size: int
    files: int = 1

    @property
    def bytes(self):
        return self.size * self.files

    @property
    def manifest(self):
        """The files as a set: one file in records of 1 MB, or a record for each file."""
        if self.files == 1:
            place, count = 'file = "data.bin"\nsize = 1_000_000', self.size // 1_000_000
        else:
            place, count = 'file = "{n:05}.bin"', self.files
        return f'[[component]]\nname = "data"\n{place}\n\n[records]\ncount = {count}\n'


def cases():
    for name, links in (("b", PAIR_B), ("c", PAIR_C)):
        for part, factor in (("", 1), ("-tenth", 10)):
            yield Case(f"one-{name}{part}", links, 1_000_000_000 // factor)
            yield Case(f"many-{name}{part}", links, 10_000, files=10_000 // factor)


CASES = {case.name: case for case in cases()}
USUAL = [name for name in CASES if "tenth" not in name]


def plant(case, folder):
    """Writes what is fetched, once; random bytes, which no program can compress. The folder of the set, in a folder of sets."""
    source = folder / f"sets-{case.files}-{case.size}"
    if not source.exists():
        generator = random.Random(case.size)
        made = folder / "made"
        (made / SET).mkdir(parents=True)
        (made / SET / MANIFEST).write_text(case.manifest)
        for index in range(case.files):
            path = made / SET / ("data.bin" if case.files == 1 else f"{index:05}.bin")
            with path.open("wb") as file:
                for at in range(0, case.size, BLOCK):
                    file.write(generator.randbytes(min(BLOCK, case.size - at)))
        made.rename(source)
    return source / SET


def digest(folder):
    """Hash of the names and bytes of all files below a folder, but for the manifest."""
    whole = hashlib.blake2b()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST):
        with path.open("rb") as file:
            part = hashlib.file_digest(file, "blake2b") if hasattr(hashlib, "file_digest") else hashlib.blake2b(file.read())
        whole.update(f"{path.relative_to(folder)} {part.hexdigest()}\n".encode())
    return whole.hexdigest()


def joined(network):
    """Subflows by which MPTCP connections got further paths."""
    total = 0
    for space in (network.near, network.far):
        lines = space.run("cat", "/proc/net/netstat").splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("MPTcpExt:"))
        total += int(dict(zip(names, values))["MPJoinAckRx"])
    return total


def later_share(network):
    """Share of the bytes at the near end that did not come over the first path."""
    files = [f"/sys/class/net/anab{index}a/statistics/rx_bytes" for index in range(len(network.links))]
    first, *others = map(int, network.near.run("cat", *files).split())
    return sum(others) / (first + sum(others))


def measure(case, program, binary, seed, folder, limit_s):
    """One transfer by a program; a row of figures. Its `seconds` end when what arrived is on the disk."""
    into, work = folder / "into", folder / "work"
    into.mkdir()
    work.mkdir()
    # What earlier runs left for the disk is not this one's.
    os.sync()
    row = {"load": os.getloadavg()[0]}
    with Network(binary, case.links, seed) as network:
        try:
            program.prepare(network, into, work)
            start = time.monotonic()
            code = program.end(program.fetch(), limit_s)
            is_over_limit = code is None
            if code:
                raise Failure(f"{program.name} failed: {program.logs()}")
            row["elapsed_s"] = time.monotonic() - start
            subprocess.run(("sync", "-f", into), check=True)
            row["seconds"] = time.monotonic() - start
        finally:
            program.stop()
        row["later_paths_share"] = later_share(network)
        if program.setting.is_mptcp and not joined(network):
            raise Failure(f"{program.name}: none of its connections got a second path")
    if is_over_limit:
        # Some programs give a file its size at the beginning: what it has on the disk counts.
        arrived = sum(path.stat().st_blocks * 512 for path in into.rglob("*") if path.is_file())
        return row | {"is_over_limit": True, "seconds": float(limit_s), "arrived_bytes": arrived}
    if digest(into) != digest(program.source):
        raise Failure(f"{program.name}: what arrived differs: {program.logs()}")
    return row | {f"cpu_{side}_s": used for side, used in program.cpu_s.items()}
