"""Nodes that export a folder, or have a session with such a one: the program of the wheel."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anabranch

from .support import LIMIT

PROGRAM = Path(sys.executable).with_name("anabranch")
#: Seed of the key of readers that are nodes of a process.
SEED = bytes(range(32))


def data() -> Path | None:
    """The folder of the shared data: that of ``ANABRANCH_DATA``, or ``shared/data`` beside the repository; ``None``: it is not there."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("ANABRANCH_DATA") or beside)
    return folder if folder.is_dir() else None


def reader_id(seed: bytes = SEED) -> str:
    """Id of the node with this seed."""
    return anabranch.Node(key=seed, bind=["127.0.0.1:0"]).id


class Running:
    """A node of the program, in a folder of its own."""

    def __init__(self, folder: Path, name: str, sections: str) -> None:
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        self.local = self.folder / "local.sock"
        self._config = self.folder / "node.toml"
        self._sections = sections
        self._log = self.folder / "log"
        self.id = ""
        self.ticket = ""
        self.start()

    def configure(self, sections: str) -> None:
        """Writes its configuration."""
        self._config.write_text(f"""
listen = ["127.0.0.1:0"]
key = "{self.folder}/key"
control = "{self.folder}/control.sock"
local = "{self.local}"
ledger = "{self.folder}/ledger"
promise_record = ""
evidence = ""
{sections}""")

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        self.configure(self._sections)
        self.local.unlink(missing_ok=True)
        command = [str(PROGRAM), "-v", "node", "--config", str(self._config)]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        output = self.process.stdout
        assert output is not None
        self.id = output.readline().removeprefix("node ").strip()
        self.ticket = output.readline().strip().rpartition(" ")[2]
        assert self.ticket.startswith("anabranch1:"), self.log()
        end = time.monotonic() + LIMIT
        while not self.local.exists():
            assert time.monotonic() < end and self.process.poll() is None, self.log()
            time.sleep(0.02)

    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    def reload(self, sections: str) -> None:
        """Changes its configuration."""
        self.configure(sections)
        control = str(self.folder / "control.sock")
        subprocess.run([str(PROGRAM), "reload", "--control", control], check=True, capture_output=True, timeout=LIMIT)

    def end(self) -> None:
        """Ends it."""
        self.process.terminate()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(LIMIT)


def sections(folder: Path, readers: list[str], may: str = '"data"') -> str:
    """Configuration of a node that exports ``folder`` as ``data``."""
    peers = "".join(
        f'[[peer]]\nname = "reader{number}"\nnode = "{reader}"\n'
        f'may = ["call", {{ right = "read-export", exports = [{may}] }}]\n'
        for number, reader in enumerate(readers)
    )
    return f'[[export]]\nname = "data"\npath = "{folder}"\n{peers}'


@contextlib.contextmanager
def exporter(work: Path, exported: Path, readers: list[str]) -> Iterator[Running]:
    """A node that exports ``exported`` as ``data`` to these readers."""
    node = Running(work, "far", sections(exported, readers))
    try:
        yield node
    finally:
        node.end()


@contextlib.contextmanager
def attached(work: Path, far: Running) -> Iterator[Running]:
    """A node with the name ``far`` for another one, to attach to."""
    port = far.ticket.rpartition(":")[2]
    peer = f'[[peer]]\nname = "far"\nnode = "{far.id}"\nmay = []\naddresses = ["127.0.0.1:{port}"]\n'
    node = Running(work, "near", peer)
    try:
        yield node
    finally:
        node.end()
