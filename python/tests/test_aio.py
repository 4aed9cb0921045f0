"""Streams with ``asyncio``."""

from __future__ import annotations

import array
import asyncio
import time
import unittest

import anabranch
from anabranch import Rate, reports

from .support import LIMIT, LOOPBACK, pair, timeout


class Streams(unittest.IsolatedAsyncioTestCase):
    async def test_a_thousand_messages_arrive_in_order(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):

            async def write() -> None:
                async with await outgoing.open("numbers") as stream:
                    for number in range(1000):
                        self.assertEqual(await stream.send(number.to_bytes(4, "big") * 100), number)

            async def read() -> list[int]:
                stream = await incoming.accept()
                self.assertEqual(stream.label, "numbers")
                self.assertEqual((stream.can_send, stream.can_receive), (False, True))
                return [int.from_bytes(memoryview(message)[:4], "big") async for message in stream]

            _, numbers = await asyncio.gather(write(), read())
            self.assertEqual(numbers, list(range(1000)))

    async def test_any_contiguous_buffer_is_sent_and_messages_are_buffers(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stream = await outgoing.open("buffers")
            numbers = array.array("d", [1.0, 2.0])
            large = bytearray(range(256)) * 4096
            for data in (b"bytes", memoryview(b"view"), numbers, large):
                await stream.send(data)
            large[:] = bytes(len(large))
            reader = await incoming.accept()
            received = [await reader.receive() for _ in range(4)]
            first, second, third, fourth = received
            assert first is not None and second is not None and third is not None and fourth is not None
            self.assertEqual([bytes(first), bytes(second)], [b"bytes", b"view"])
            self.assertEqual(memoryview(third).cast("d").tolist(), [1.0, 2.0])
            self.assertEqual(bytes(fourth), bytes(range(256)) * 4096, "what is changed after the send is not sent")
            self.assertEqual((len(first), first.sequence, first.missing, first.is_cut), (5, 0, [], False))
            self.assertTrue(memoryview(first).readonly)
            view = memoryview(fourth)
            del fourth, received
            self.assertEqual(view[255], 255, "the view keeps the message")

    async def test_what_cannot_be_sent_is_refused(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            stream = await outgoing.open("refused")
            with self.assertRaisesRegex(TypeError, "buffer"):
                await stream.send("text")  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, "gaps"):
                await stream.send(memoryview(b"abcdef")[::2])
            with self.assertRaisesRegex(anabranch.SendError, "empty"):
                await stream.send(b"")
            with self.assertRaisesRegex(anabranch.SendError, "16777216"):
                await stream.send(bytes((16 << 20) + 1))

    async def test_a_cancelled_receive_loses_nothing(self) -> None:
        """The cancellation meets the wait in each state: before the message is there, and some turns of the loop after it."""
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stream = await outgoing.open("cancelled")
            await stream.send(b"first")
            reader = await incoming.accept()
            await reader.receive()
            count = 200
            received: list[int] = []

            async def read_one() -> None:
                message = await reader.receive()
                assert message is not None
                received.append(int(bytes(message)))

            cancelled = 0
            for number in range(count):
                task = asyncio.create_task(read_one())
                await asyncio.sleep(0)
                await stream.send(b"%d" % number)
                # The loop stands still while the message arrives.
                time.sleep(0.002)
                for _ in range(number % 7):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if task.cancelled():
                    cancelled += 1
                    await asyncio.wait_for(read_one(), LIMIT / 6)
                self.assertEqual(received.pop(), number)
            self.assertGreater(cancelled, 0)

    async def test_a_full_buffer_holds_the_writer_and_a_cancelled_send_sends_nothing(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stream = await outgoing.open("full")
            data = bytes(1 << 20)
            sent = 0
            while True:
                try:
                    await asyncio.wait_for(stream.send(data), 0.5)
                except (TimeoutError, asyncio.TimeoutError):
                    break
                sent += 1
                self.assertLess(sent, 1000, "nothing holds the writer")
            stream.finish()
            reader = await incoming.accept()
            received = [len(message) async for message in reader]
            self.assertEqual(received, [1 << 20] * sent)

    async def test_a_refusal_has_a_reason_and_offers(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            with self.assertRaises(anabranch.Refused) as refused:
                await outgoing.open("promised", guarantee=Rate("2 Mbit/s", 0.95), ordered=False)
            self.assertEqual(refused.exception.reason, "too_little_known")
            self.assertIn("seconds with traffic", str(refused.exception))
            self.assertEqual(refused.exception.offer, anabranch.Offer())
            with self.assertRaises(anabranch.Refused):
                await outgoing.admit(guarantee=Rate(2e6, "95 %"))
            with self.assertRaises(anabranch.Refused) as refused:
                await outgoing.admit()
            self.assertEqual(refused.exception.reason, "no_guarantee")

    async def test_the_newest_goes_first_if_it_is_asked_for(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            async with await outgoing.open("newest", newest_first=True) as stream:
                for number in range(100):
                    await stream.send(bytes([number]) * 20_000)
            reader = await incoming.accept()
            self.assertFalse(reader.spec.ordered)
            received = [bytes(message)[0] async for message in reader]
            self.assertEqual(sorted(received), list(range(100)))
            with self.assertRaisesRegex(ValueError, "cannot send the newest message first"):
                await outgoing.open("both", newest_first=True, ordered=True)

    async def test_a_waiting_guarantee_is_explained(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            stream = await outgoing.open("waiting", guarantee=Rate("2 Mbit/s", 0.95, waits=True))
            explained = await stream.explain()
            assert explained is not None
            self.assertEqual((explained.rate_bps, explained.grade), (2_000_000, None))
            self.assertEqual(explained.probability, 0.95)
            await stream.change_guarantee(None)
            self.assertIsNone(await (await outgoing.open("plain")).explain())

    async def test_wrong_specifications_are_refused_with_their_key(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            wrong: list[tuple[str, anabranch.StreamOptions]] = [
                ("lifetime", {"deadline": "soon"}),
                ("deadline", {"deadline": float("nan")}),
                ("weight", {"weight": 0}),
                ("cap", {"cap": -1.0}),
                ("probability", {"guarantee": Rate("2 Mbit/s", 95.0)}),
                ("guarantee.rate", {"guarantee": Rate("2", 0.95)}),
                ("drop", {"drop": "oldest"}),
            ]
            for name, options in wrong:
                with self.subTest(name), self.assertRaisesRegex(anabranch.SpecError, name):
                    await outgoing.open("wrong", **options)
            with self.assertRaisesRegex(TypeError, "guarantees"):
                await outgoing.open("wrong", guarantees=None)  # type: ignore[call-arg]

    async def test_resets_and_stops_reach_the_other_side_with_their_codes(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stream = await outgoing.open("reset")
            await stream.send(b"x")
            reader = await incoming.accept()
            await reader.receive()
            stream.reset(7)
            with self.assertRaises(anabranch.StreamReset) as reset:
                await reader.receive()
            self.assertEqual(reset.exception.code, 7)
            stream = await outgoing.open("stop")
            await stream.send(b"x")
            reader = await incoming.accept()
            reader.stop(9)
            with self.assertRaises(anabranch.StreamStopped) as stopped:
                await stream.delivered()
            self.assertEqual(stopped.exception.code, 9)

    async def test_a_stream_that_the_peer_dropped_ends_with_the_cause(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            with self.assertRaises(anabranch.StreamStopped):
                async with await outgoing.open("dropped") as stream:
                    await stream.send(b"x")
                    reader = await incoming.accept()
                    del reader
                    with self.assertRaises(anabranch.StreamStopped):
                        await stream.delivered()
            async with await outgoing.open("delivered") as stream:
                await stream.send(b"x")
                reader = await incoming.accept()
                stream.finish()
                await stream.delivered()
            async with await outgoing.open("given up") as stream:
                await stream.send(b"x")
                stream.reset()

    async def test_a_body_that_fails_resets_its_stream(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            with self.assertRaises(ZeroDivisionError):
                async with await outgoing.open("fails") as stream:
                    await stream.send(b"x")
                    reader = await incoming.accept()
                    await reader.receive()
                    _ = 1 // 0
            with self.assertRaises(anabranch.StreamReset):
                await reader.receive()

    async def test_events_and_statistics(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            up = await anext(outgoing.events())
            assert isinstance(up, reports.PathUp)
            stream = await outgoing.open("told", notify=True, deadline="5 s", ordered=False, duplex=True)
            await stream.send(b"tell me")
            async for event in stream.events():
                if isinstance(event, reports.Acked):
                    self.assertEqual(event.message, 0)
                    break
            reader = await incoming.accept()
            self.assertEqual((reader.spec.deadline_s, reader.spec.ordered), (5.0, False))
            await reader.send(b"answer")
            answer = await stream.receive()
            assert answer is not None
            self.assertEqual(bytes(answer), b"answer")
            [path] = outgoing.paths()
            self.assertEqual((path.path, path.is_active), (up.path, True))
            self.assertGreater(path.rtt_s, 0)
            stats = outgoing.stats()
            assert stats is not None
            self.assertEqual((stats.peer, stats.paths_active), (outgoing.peer, 1))
            self.assertIn("told", [stats.label for stats in outgoing.stream_stats()])
            self.assertIsNone(await stream.on_time(100, "1 s"))

    async def test_the_end_of_a_session_ends_iterators_and_fails_waits(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stream = await outgoing.open("end")
            await stream.send(b"last")
            reader = await incoming.accept()
            await reader.receive()
            waiting = asyncio.create_task(reader.receive())
            await asyncio.sleep(0)
            outgoing.close(3, "enough")
            with self.assertRaisesRegex(anabranch.Closed, "enough"):
                await waiting
            self.assertIn("enough", await incoming.closed())
            self.assertEqual([stream async for stream in incoming.streams()], [])
            with self.assertRaises(anabranch.Closed):
                await stream.send(b"too late")


class Connections(unittest.IsolatedAsyncioTestCase):
    async def test_causes_are_classes(self) -> None:
        async with timeout(LIMIT), anabranch.Node(bind=LOOPBACK) as here, anabranch.Node(bind=LOOPBACK) as there:
            with self.assertRaisesRegex(anabranch.Rejected, here.id):
                await here.open_session(there.ticket())
            with self.assertRaises(anabranch.NoRoute):
                await here.open_session(there.id, ["[::1]:9"])
            with self.assertRaises(anabranch.TicketError):
                await here.open_session("hello")
            with self.assertRaises(anabranch.SpecError):
                await here.open_session("nobody", ["127.0.0.1:9"])
            with self.assertRaises(anabranch.TicketError):
                async with anabranch.connect("anabranch1:x"):
                    pass
            there.allow(here.id)
            async with here.connect(there.id, there.addresses()) as session:
                self.assertEqual(session.peer, there.id)

    async def test_a_cancelled_connect_ends(self) -> None:
        async with timeout(LIMIT), anabranch.Node(bind=LOOPBACK) as here:
            peer = anabranch.Node(bind=LOOPBACK)
            ticket = peer.ticket()
            await peer.shutdown()
            with self.assertRaises((TimeoutError, asyncio.TimeoutError)):
                await asyncio.wait_for(here.open_session(ticket), 0.2)

    async def test_a_ticket_connects_and_sessions_end_with_their_node(self) -> None:
        async with timeout(LIMIT), anabranch.Node(bind=LOOPBACK, allow=anabranch.ANYONE) as there:

            async def serve() -> list[bytes]:
                received = []
                async for session in there.sessions():
                    message = await (stream := await session.accept()).receive()
                    assert message is not None
                    received.append(bytes(message))
                    await stream.send(b"seen")
                return received

            serving = asyncio.create_task(serve())
            async with anabranch.connect(there.ticket(), bind=LOOPBACK) as session:
                self.assertEqual(session.peer, there.id)
                stream = await session.open("hello", duplex=True)
                await stream.send(b"hello")
                answer = await stream.receive()
                assert answer is not None
                self.assertEqual(bytes(answer), b"seen")
            await there.shutdown()
            self.assertEqual(await serving, [b"hello"])

    async def test_starts_that_fail_say_why(self) -> None:
        with self.assertRaisesRegex(anabranch.SpecError, "bind"):
            anabranch.Node(bind=["nowhere"])
        with self.assertRaisesRegex(anabranch.SpecError, "id of a node"):
            anabranch.Node(bind=LOOPBACK, allow=["x"])
        with self.assertRaisesRegex(TypeError, "ANYONE"):
            anabranch.Node(bind=LOOPBACK, allow="everybody")
        with self.assertRaisesRegex(ValueError, "32 bytes"):
            anabranch.Node(bind=LOOPBACK, key=b"short")
        async with anabranch.Node(bind=LOOPBACK, key=bytes(32)) as first:
            with self.assertRaisesRegex(anabranch.StartError, "port"):
                anabranch.Node(bind=first.addresses())

    def test_loops_that_ended_leave_nothing(self) -> None:
        async def once() -> bytes:
            async with pair() as (outgoing, incoming):
                stream = await outgoing.open("again")
                await stream.send(b"once more")
                message = await (await incoming.accept()).receive()
                assert message is not None
                return bytes(message)

        for _ in range(5):
            self.assertEqual(asyncio.run(once()), b"once more")
