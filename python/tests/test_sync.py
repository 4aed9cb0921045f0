"""Streams without an event loop, and threads beside one."""

from __future__ import annotations

import asyncio
import threading
import unittest

import anabranch

from .support import LIMIT, pair, sync_pair, timeout


class Sync(unittest.TestCase):
    def test_messages_arrive_in_order(self) -> None:
        with sync_pair() as (outgoing, incoming):
            received: list[int] = []

            def read() -> None:
                received.extend(message.sequence for message in incoming.accept(LIMIT))

            thread = threading.Thread(target=read)
            thread.start()
            with outgoing.open("numbers") as stream:
                for _ in range(1000):
                    stream.send(bytes(2000))
            thread.join(LIMIT)
            self.assertFalse(thread.is_alive(), "the reader hangs")
            self.assertEqual(received, list(range(1000)))

    def test_a_time_out_loses_nothing(self) -> None:
        with sync_pair() as (outgoing, incoming):
            stream = outgoing.open("late")
            stream.send(b"first")
            reader = incoming.accept(LIMIT)
            reader.receive(LIMIT)
            for timeout in (0.0, 0.01, 0.12):
                with self.assertRaises(TimeoutError):
                    reader.receive(timeout)
            stream.send(b"second")
            message = reader.receive(LIMIT)
            assert message is not None
            self.assertEqual(bytes(message), b"second")

    def test_nothing_waits_to_be_given_up(self) -> None:
        with sync_pair() as (outgoing, _):
            stream = outgoing.open("view", reliable=False)
            self.assertEqual(stream.discard(), anabranch.Discarded(messages=0, message_bytes=0))

    def test_errors_are_those_of_asyncio(self) -> None:
        with sync_pair() as (outgoing, incoming):
            with self.assertRaises(anabranch.Refused):
                outgoing.open("promised", guarantee=anabranch.Rate("1 Mbit/s", 0.9))
            with self.assertRaises(ZeroDivisionError), outgoing.open("fails") as stream:
                stream.send(b"x")
                reader = incoming.accept(LIMIT)
                reader.receive(LIMIT)
                _ = 1 // 0
            with self.assertRaises(anabranch.StreamReset):
                reader.receive(LIMIT)
            outgoing.close()
            self.assertEqual(list(incoming.streams()), [])
            incoming.closed(LIMIT)


class Threads(unittest.TestCase):
    def test_threads_and_a_loop_share_a_stream(self) -> None:
        """Four threads and four tasks take from one stream; each message is taken once."""

        async def check() -> None:
            async with timeout(LIMIT), pair() as (outgoing, incoming):
                count = 2000
                stream = await outgoing.open("shared")
                await stream.send(b"0")
                reader = await incoming.accept()
                taken: list[int] = []

                def take_in_thread() -> None:
                    shared = anabranch.sync.Stream(reader._raw)
                    taken.extend(message.sequence for message in shared)

                async def take() -> None:
                    async for message in reader:
                        taken.append(message.sequence)

                async def write() -> None:
                    for number in range(1, count):
                        await stream.send(b"%d" % number)
                    stream.finish()

                threads = [asyncio.to_thread(take_in_thread) for _ in range(4)]
                await asyncio.gather(write(), *threads, *(take() for _ in range(4)))
                self.assertEqual(sorted(taken), list(range(count)))

        asyncio.run(check())
