"""Rates at which a file of a peer is read over ``anabranch://``, beside a transfer of the file and a local read, in turns, all on loopback.

    python bench/ranges.py PROGRAM [RUNS]

PROGRAM is `anabranch`, built for release. A file of 256 MB is read from its beginning to its end in one call, and through a file object
in blocks of 5 MiB and 1 MiB; and 1,000 ranges of 64 kB at random, one after the other and all at a time. `send` and `recv` move the same file.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anabranch
import fsspec

SIZE, RANGE_BYTES, RANGES = 256_000_000, 64_000, 1_000
SEED = bytes(range(32))
PATH = "far/data/file"


class Exporter:
    """A node that exports a folder."""

    def __init__(self, program: str, folder: Path) -> None:
        reader = anabranch.Node(key=SEED, bind=["127.0.0.1:0"]).id
        (folder / "node.toml").write_text(f"""
listen = ["127.0.0.1:0"]
key = "{folder}/key"
control = "{folder}/control.sock"
local = ""
ledger = "{folder}/ledger"
promise_record = ""
evidence = ""
[[export]]
name = "data"
path = "{folder}/data"
[[peer]]
name = "reader"
node = "{reader}"
may = ["call", {{ right = "read-export", exports = ["data"] }}]
""")
        command = [program, "node", "--config", str(folder / "node.toml")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.ticket = self.process.stdout.readline().split()[-1]


def transfer(program: str, folder: Path) -> None:
    """`send` and `recv` of the file."""
    to = Path(tempfile.mkdtemp(dir=folder))
    receiving = subprocess.Popen(
        [program, "recv", "--bind", "127.0.0.1:0", "--key", str(folder / "recv.key"), "--yes", str(to)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiving.stdout is not None
    ticket = ""
    while not ticket:
        words = receiving.stdout.readline().split()
        ticket = next((word for word in words if word.startswith("anabranch1:")), "")
    sending = [program, "send", "--quiet", "--direct", "--key", str(folder / "send.key"), str(folder / "data" / "file"), ticket]
    subprocess.run(sending, check=True)
    receiving.stdout.close()
    receiving.wait()
    (to / "file").unlink()


def read_blocks(file: object, block: int) -> None:
    """Reads a file object to its end."""
    total = 0
    while data := file.read(block):  # type: ignore[attr-defined]
        total += len(data)
    assert total == SIZE, total


def main() -> None:
    program, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        local = folder / "data" / "file"
        local.write_bytes(random.Random(1).randbytes(SIZE))
        exporter = Exporter(program, folder)
        try:
            fs = fsspec.filesystem("anabranch", ticket=exporter.ticket, key=SEED, bind=["127.0.0.1:0"])
            starts = [random.Random(2).randrange(SIZE - RANGE_BYTES) for _ in range(RANGES)]
            ends = [start + RANGE_BYTES for start in starts]

            def one_by_one() -> None:
                for start, end in zip(starts, ends, strict=True):
                    assert len(fs.cat_file(PATH, start, end)) == RANGE_BYTES

            def all_at_a_time() -> None:
                ranges = fs.cat_ranges([PATH] * RANGES, starts, ends)
                assert sum(map(len, ranges)) == RANGES * RANGE_BYTES

            ways: list[tuple[str, int, Callable[[], object]]] = [
                ("local read", SIZE, local.read_bytes),
                ("send and recv", SIZE, lambda: transfer(program, folder)),
                ("one call", SIZE, lambda: fs.cat_file(PATH)),
                ("file, blocks of 5 MiB", SIZE, lambda: read_blocks(fs.open(PATH), 1 << 20)),
                ("get_file", SIZE, lambda: fs.get_file(PATH, str(folder / "copy"))),
                ("1,000 ranges, one after the other", RANGES * RANGE_BYTES, one_by_one),
                ("1,000 ranges, all at a time", RANGES * RANGE_BYTES, all_at_a_time),
            ]
            fs.cat_file(PATH)
            times: dict[str, list[float]] = {name: [] for name, _, _ in ways}
            for _ in range(runs):
                for what, _, run in ways:
                    started = time.perf_counter()
                    run()
                    times[what].append(time.perf_counter() - started)
            for what, size, _ in ways:
                taken = times[what]
                rate = size / statistics.median(taken) / 1e6
                print(f"{what:36} {rate:8.0f} MB/s   {min(taken):.3f} to {max(taken):.3f} s")
        finally:
            exporter.process.terminate()
            exporter.process.wait()


if __name__ == "__main__":
    main()
