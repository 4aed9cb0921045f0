"""Files to ``anabranch recv``, whose ticket admits a sender that it does not know."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
import unittest
from pathlib import Path
from typing import Any

import anabranch
from anabranch import sync

from .support import LIMIT, LOOPBACK, timeout

PROGRAM = Path(sysconfig.get_path("scripts")) / "anabranch"


class Receiver:
    """A program that receives one transfer."""

    def __init__(self, folder: str) -> None:
        command = [str(PROGRAM), "recv", folder, "--bind", "127.0.0.1:0", "--key", os.path.join(folder, ".key"), "--json"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=LIMIT)

    def ticket(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: dict[str, Any] = json.loads(line)
            if "ticket" in event:
                found: str = event["ticket"]
                return found
        raise AssertionError("the receiver shows no ticket")

    def end(self) -> int:
        self._process.communicate(timeout=LIMIT)
        return self._process.returncode


class Transfers(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        both = [tempfile.TemporaryDirectory() for _ in range(2)]
        for folder in both:
            self.addCleanup(folder.cleanup)
        self.source, self.target = (folder.name for folder in both)

    async def test_a_directory_arrives(self) -> None:
        data = Path(self.source) / "data"
        (data / "runs").mkdir(parents=True)
        (data / "runs" / "1.bin").write_bytes(bytes(range(256)) * 5000)
        (data / "notes.txt").write_text("21.5")
        with Receiver(self.target) as receiver:
            async with timeout(LIMIT), anabranch.Node(bind=LOOPBACK) as node:
                sent = await node.send_files(receiver.ticket(), data, name="measured")
            self.assertEqual(receiver.end(), 0)
        self.assertEqual((sent.name, sent.files, sent.bytes, sent.left_out), ("measured", 2, 256 * 5000 + 4, []))
        received = Path(self.target) / "measured"
        self.assertEqual((received / "runs" / "1.bin").read_bytes(), (data / "runs" / "1.bin").read_bytes())
        self.assertEqual((received / "notes.txt").read_text(), "21.5")

    def test_a_file_arrives_without_asyncio(self) -> None:
        file = Path(self.source) / "result.csv"
        file.write_text("a,b\n1,2\n")
        with Receiver(self.target) as receiver, sync.Node(bind=LOOPBACK) as node:
            ticket = receiver.ticket()
            with self.assertRaisesRegex(anabranch.TransferError, "no/such"):
                node.send_files(ticket, "/no/such/file", timeout=LIMIT)
            self.assertEqual(node.send_files(ticket, file, timeout=LIMIT).files, 1)
            self.assertEqual(receiver.end(), 0)
        self.assertEqual((Path(self.target) / "result.csv").read_text(), "a,b\n1,2\n")

    def test_a_wrong_secret_is_refused(self) -> None:
        file = Path(self.source) / "result.csv"
        file.write_text("a,b\n1,2\n")
        with Receiver(self.target) as receiver, sync.Node(bind=LOOPBACK) as node:
            begin, peer, secret, addresses = receiver.ticket().split(":", 3)
            wrong = ":".join([begin, peer, ("b" if secret[0] == "a" else "a") + secret[1:], addresses])
            with self.assertRaisesRegex(anabranch.TransferError, "ticket"):
                node.send_files(wrong, file, timeout=LIMIT)
            with self.assertRaisesRegex(anabranch.TicketError, "anabranch1"):
                node.send_files("not a ticket", file)
            self.assertEqual(sorted(os.listdir(self.target)), [".key"])


if __name__ == "__main__":
    unittest.main()
