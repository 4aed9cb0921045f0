"""A program attached to a running node, the program of the wheel."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import anabranch

from .support import LIMIT, LOOPBACK, timeout

PROGRAM = Path(sys.executable).with_name("anabranch")


@unittest.skipUnless(PROGRAM.exists(), "the program anabranch is not installed beside this Python")
class Attached(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.socket = self.folder / "local.sock"
        self.here = anabranch.Node(bind=LOOPBACK)
        self.addAsyncCleanup(self.here.shutdown)
        config = self.folder / "node.toml"
        config.write_text(f"""
listen = ["127.0.0.1:0"]
key = "{self.folder}/key"
control = "{self.folder}/control.sock"
local = "{self.socket}"
ledger = "{self.folder}/ledger"
promise_record = ""
evidence = ""
[[peer]]
name = "python"
node = "{self.here.id}"
may = ["call", {{ right = "use-service", services = ["telemetry"] }}]
""")
        self.log = (self.folder / "log").open("w+")
        self.addCleanup(self.log.close)
        command: list[str | Path] = [PROGRAM, "node", "--config", config]
        self.node = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.addCleanup(self._end)
        async with timeout(LIMIT):
            while not self.socket.exists():
                self.assertIsNone(self.node.poll(), self._text())
                await asyncio.sleep(0.05)

    def _text(self) -> str:
        return (self.folder / "log").read_text()

    def _end(self) -> None:
        self.node.terminate()
        self.node.wait(LIMIT)

    async def test_streams_flow_both_ways(self) -> None:
        async with timeout(LIMIT):
            client = await anabranch.attach(str(self.socket), "test")
            self.here.allow(client.id)
            session = await client.connect("python", self.here.addresses())
            incoming = await self.here.accept()
            assert incoming is not None
            self.assertEqual((session.peer, incoming.peer), (self.here.id, client.id))
            stream = await session.open("from the program", duplex=True)
            await stream.send(b"question")
            reader = await incoming.accept()
            message = await reader.receive()
            assert message is not None
            self.assertEqual(bytes(message), b"question")
            await reader.send(b"answer")
            message = await stream.receive()
            assert message is not None
            self.assertEqual(bytes(message), b"answer")

            service = client.service("telemetry")
            arriving = asyncio.ensure_future(anext(service))
            await asyncio.sleep(0)
            # The registration was sent, and is in force once what follows it has been answered.
            with self.assertRaises(anabranch.Refused):
                await session.admit(guarantee=anabranch.Rate("1 Mbit/s", 0.95))
            async with await incoming.open("telemetry") as sending:
                await sending.send(b"21.5")
                peer, taken = await arriving
                self.assertEqual((peer, taken.label), (self.here.id, "telemetry"))
                self.assertEqual([bytes(await self._next(taken))], [b"21.5"])
            with self.assertRaisesRegex(anabranch.AnabranchError, "service"):
                await session.accept()
            with self.assertRaisesRegex(anabranch.AnabranchError, "paths"):
                session.paths()

    async def _next(self, stream: anabranch.Stream) -> anabranch.Message:
        message = await stream.receive()
        assert message is not None
        return message

    async def test_a_node_that_ends_ends_the_waits(self) -> None:
        async with timeout(LIMIT):
            client = await anabranch.attach(str(self.socket), "test")
            waiting = asyncio.ensure_future(anext(client.service("telemetry")))
            await asyncio.sleep(0.2)
            self._end()
            with self.assertRaises((anabranch.Closed, StopAsyncIteration)):
                await waiting

    async def test_a_node_that_is_not_there_is_named(self) -> None:
        async with timeout(LIMIT):
            with self.assertRaisesRegex(anabranch.AttachError, re.escape(str(self.folder / "none"))):
                await anabranch.attach(str(self.folder / "none"))
