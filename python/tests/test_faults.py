"""Faults: paths that lose, delay, repeat and fall silent, tasks that are cancelled at any point, callbacks that fail, and nodes that are
killed. What is known to be at the peer's node is received, nothing is received twice, and nothing hangs.

Each test runs with several seeds; ``FAULT_SEEDS=7,8`` names others. A seed fixes the plan of faults, not the timing.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import random
import signal
import time
import unittest
from collections.abc import AsyncIterator

import anabranch
from anabranch import reports

from .relay import Relay
from .support import LIMIT, LOOPBACK, program, timeout

SEEDS = [int(seed) for seed in os.environ.get("FAULT_SEEDS", "1,2,3,4").split(",")]
#: Ends a run that hangs, in seconds, with the stacks of all threads.
HANG_S = 2 * LIMIT


@contextlib.asynccontextmanager
async def joined(seed: int) -> AsyncIterator[tuple[anabranch.Session, anabranch.Session, list[Relay]]]:
    """A session over two relays."""
    async with (
        anabranch.Node(bind=LOOPBACK) as here,
        anabranch.Node(bind=LOOPBACK, allow=[here.id]) as there,
    ):
        with Relay(there.addresses()[0], seed) as first, Relay(there.addresses()[0], seed + 1000) as second:
            async with here.connect(there.id, [first.address, second.address]) as session:
                incoming = await there.accept()
                assert incoming is not None
                yield session, incoming, [first, second]


async def faults(relays: list[Relay], rng: random.Random) -> None:
    """Changes what happens on the paths, until it is cancelled; then they are whole again."""
    try:
        for relay in relays:
            relay.loss = 0.2
        # There is a fault at all, however quick the machine is.
        while not sum(relay.dropped for relay in relays):
            await asyncio.sleep(0.01)
        while True:
            relay = rng.choice(relays)
            relay.loss = rng.choice([0.0, 0.01, 0.1, 0.3])
            relay.repeat = rng.choice([0.0, 0.1])
            relay.late = rng.choice([0.0, 0.3])
            # At most one path is silent.
            relay.is_cut = rng.random() < 0.3
            for other in relays:
                other.is_cut = other.is_cut and other is relay
            await asyncio.sleep(rng.uniform(0.02, 0.4))
    finally:
        for relay in relays:
            relay.loss = relay.repeat = relay.late = 0.0
            relay.is_cut = False


def message(number: int, rng: random.Random) -> bytes:
    """Its number, and some length."""
    return number.to_bytes(4, "big") * rng.choice([1, 20, 500, 8000])


def numbered(data: anabranch.Message) -> int:
    view = memoryview(data)
    number = int.from_bytes(view[:4], "big")
    assert bytes(view) == number.to_bytes(4, "big") * (len(view) // 4), "a message is not what was sent"
    return number


class Faults(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    async def test_nothing_is_lost_or_repeated_on_a_reliable_stream(self) -> None:
        for seed in SEEDS:
            with self.subTest(seed=seed):
                async with timeout(LIMIT), joined(seed) as (session, incoming, relays):
                    rng = random.Random(seed)
                    disturbing = asyncio.create_task(faults(relays, rng))
                    sent: list[int] = []
                    cancelled = 0

                    async def write(session: anabranch.Session = session, seed: int = seed, sent: list[int] = sent) -> None:
                        nonlocal cancelled
                        rng = random.Random(seed + 1)
                        async with await session.open("all") as stream:
                            for number in range(400):
                                sending = asyncio.create_task(stream.send(message(number, rng)))
                                if rng.random() < 0.2:
                                    for _ in range(rng.randrange(3)):
                                        await asyncio.sleep(0)
                                    sending.cancel()
                                try:
                                    queued = await sending
                                except asyncio.CancelledError:
                                    cancelled += 1
                                    continue
                                self.assertEqual(queued, len(sent), "messages are numbered in order")
                                sent.append(number)
                                await asyncio.sleep(rng.choice([0, 0, 0.002, 0.01]))

                    async def read(incoming: anabranch.Session = incoming, seed: int = seed) -> list[int]:
                        nonlocal cancelled
                        rng = random.Random(seed + 2)
                        stream = await incoming.accept()
                        received: list[int] = []
                        while True:
                            receiving = asyncio.create_task(stream.receive())
                            if rng.random() < 0.2:
                                for _ in range(rng.randrange(4)):
                                    await asyncio.sleep(0)
                                receiving.cancel()
                            try:
                                data = await receiving
                            except asyncio.CancelledError:
                                cancelled += 1
                                continue
                            if data is None:
                                return received
                            received.append(numbered(data))

                    reading = asyncio.create_task(read())
                    await write()
                    received = await reading
                    disturbing.cancel()
                    self.assertEqual(received, sent)
                    self.assertGreater(min(cancelled, sum(relay.dropped for relay in relays)), 0, "there were no faults")

    async def test_every_message_of_an_unreliable_stream_has_one_outcome(self) -> None:
        for seed in SEEDS:
            with self.subTest(seed=seed):
                async with timeout(LIMIT), joined(seed) as (session, incoming, relays):
                    rng = random.Random(seed)
                    disturbing = asyncio.create_task(faults(relays, rng))
                    stream = await session.open("live", reliable=False, ordered=False, deadline="300 ms", notify=True)
                    outcomes: dict[int, str] = {}

                    async def observe(stream: anabranch.Stream = stream, outcomes: dict[int, str] = outcomes) -> None:
                        async for event in stream.events():
                            if isinstance(event, reports.Acked | reports.Lost | reports.Expired | reports.Dropped):
                                self.assertNotIn(event.message, outcomes, f"{event} after another outcome")
                                outcomes[event.message] = type(event).__name__

                    async def read(incoming: anabranch.Session = incoming) -> list[int]:
                        reader = await incoming.accept()
                        return [numbered(data) async for data in reader]

                    observing, reading = asyncio.create_task(observe()), asyncio.create_task(read())
                    for number in range(200):
                        await stream.send(message(number, rng))
                        await asyncio.sleep(0.005)
                    while len(outcomes) < 200:
                        await asyncio.sleep(0.05)
                    disturbing.cancel()
                    stream.finish()
                    received = await reading
                    observing.cancel()
                    self.assertEqual(len(received), len(set(received)), "received twice")
                    acked = {number for number, outcome in outcomes.items() if outcome == "Acked"}
                    self.assertLessEqual(acked, set(received), "acknowledged and not received")
                    self.assertGreater(len(acked), 0)
                    self.assertGreater(sum(relay.dropped for relay in relays), 0)

    async def test_operations_cancelled_at_any_point(self) -> None:
        """Of everything that waits, over and over; afterwards a message still passes."""
        for seed in SEEDS:
            with self.subTest(seed=seed):
                async with timeout(LIMIT), joined(seed) as (session, incoming, relays):
                    rng = random.Random(seed)
                    disturbing = asyncio.create_task(faults(relays, rng))
                    stream = await session.open("kept", duplex=True, notify=True)
                    await stream.send(b"first")
                    reader = await incoming.accept()
                    await reader.receive()
                    waits = [
                        lambda: session.open("opened"),
                        lambda: incoming.accept(),
                        lambda: stream.receive(),
                        lambda: stream.explain(),
                        lambda: anext(stream.events()),
                        lambda: anext(session.events()),
                        lambda: stream.on_time(1000, "10 ms"),
                        lambda: session.objectives(),
                        lambda: session.closed(),
                        lambda: session.admit(guarantee=anabranch.Rate("1 Mbit/s", 0.9)),
                    ]
                    for _ in range(300):
                        task: asyncio.Future[object] = asyncio.ensure_future(rng.choice(waits)())  # type: ignore[no-untyped-call]
                        for _ in range(rng.randrange(4)):
                            await asyncio.sleep(0)
                        if rng.random() < 0.1:
                            asyncio.get_running_loop().call_soon(fail)
                        task.cancel()
                        await asyncio.wait([task])
                        if not task.cancelled():
                            task.exception()
                    disturbing.cancel()
                    await reader.send(b"back")
                    self.assertEqual(bytes(await stream.receive() or b""), b"back")

    async def asyncSetUp(self) -> None:
        self.failed = 0

        def count(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            if isinstance(context.get("exception"), ZeroDivisionError):
                self.failed += 1
            else:
                loop.default_exception_handler(context)

        asyncio.get_running_loop().set_exception_handler(count)


def fail() -> None:
    """A callback of the loop with a bug."""
    raise ZeroDivisionError


class Killed(unittest.TestCase):
    def setUp(self) -> None:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def test_what_a_killed_sender_knew_to_be_delivered_is_received(self) -> None:
        """On an ordered stream, as far as all before it was: what is missing before a message, nobody sends again."""
        for seed in SEEDS:
            is_ordered = seed % 2 == 0
            with self.subTest(seed=seed, ordered=is_ordered), anabranch.sync.Node(bind=LOOPBACK, allow=anabranch.ANYONE) as node:
                with Relay(node.addresses()[0], seed) as relay:
                    relay.loss, relay.late = 0.05, 0.2
                    sending = program(f"""
import asyncio, sys
import anabranch
from anabranch import reports
async def main():
    node = anabranch.Node(bind=["127.0.0.1:0"])
    session = await node.open_session({node.id!r}, [{relay.address!r}])
    stream = await session.open("words", notify=True, ordered={is_ordered})
    async def observe():
        async for event in stream.events():
            if isinstance(event, reports.Acked):
                print(event.message, flush=True)
    observing = asyncio.create_task(observe())
    number = 0
    while True:
        await stream.send(b"%d" % number * 300)
        number += 1
        await asyncio.sleep(0.001)
asyncio.run(main())
""")
                    assert sending.stdout is not None
                    try:
                        session = node.accept(LIMIT)
                        assert session is not None
                        reader = session.accept(LIMIT)
                        acked = [int(sending.stdout.readline()) for _ in range(100 + 37 * (seed % 5))]
                    finally:
                        sending.send_signal(signal.SIGKILL)
                        # What `readline` has read ahead, `communicate` would leave out.
                        out = sending.stdout.read()
                        sending.communicate(timeout=LIMIT)
                    acked += [int(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]
                    known = set(acked)
                    if is_ordered:
                        known = {number for number in acked if known.issuperset(range(number))}
                    self.assertGreater(len(known), 10)
                    received: set[int] = set()
                    while not known <= received:
                        data = reader.receive(LIMIT)
                        assert data is not None
                        received.add(data.sequence)

    def test_a_killed_receiver_holds_nobody(self) -> None:
        """A session outlives a silence of minutes, so that waits go on; time-outs and the end of the session end them."""
        receiving = program("""
import sys
from anabranch import sync, ANYONE
node = sync.Node(bind=["127.0.0.1:0"], allow=ANYONE)
print(node.ticket(), flush=True)
for message in node.accept(30).accept(30):
    print(len(message), flush=True)
""")
        try:
            assert receiving.stdout is not None
            ticket = receiving.stdout.readline().strip()
            with anabranch.sync.Node(bind=LOOPBACK) as node, node.connect(ticket, timeout=LIMIT) as session:
                stream = session.open("x")
                stream.send(b"12345")
                self.assertEqual(receiving.stdout.readline(), "5\n")
                receiving.send_signal(signal.SIGKILL)
                receiving.wait(LIMIT)
                for event in session.events():
                    if isinstance(event, reports.PathSuspected | reports.PathClosed):
                        break
                with self.assertRaises(TimeoutError):
                    while True:
                        stream.send(bytes(1 << 20), timeout=0.2)
                stream.finish()
                with self.assertRaises(TimeoutError):
                    stream.delivered(timeout=0.2)
                session.close()
                with self.assertRaises(anabranch.Closed):
                    stream.delivered(timeout=LIMIT)
        finally:
            receiving.kill()
            receiving.communicate(timeout=LIMIT)

    def test_a_node_that_shuts_down_ends_every_wait(self) -> None:
        """Waits in many threads, on each end."""
        import threading

        here = anabranch.sync.Node(bind=LOOPBACK)
        there = anabranch.sync.Node(bind=LOOPBACK, allow=[here.id])
        outgoing = here.connect(there.ticket(), timeout=LIMIT)
        incoming = there.accept(LIMIT)
        assert incoming is not None
        stream = outgoing.open("x", duplex=True)
        stream.send(b"x")
        reader = incoming.accept(LIMIT)
        reader.receive(LIMIT)
        ended: list[str] = []

        def wait(name: str, call: object) -> None:
            assert callable(call)
            try:
                ended.append(f"{name}: {call()}")
            except anabranch.AnabranchError as error:
                ended.append(f"{name}: {type(error).__name__}")

        calls = {
            "receive": stream.receive, "receive there": reader.receive, "accept": outgoing.accept, "accept there": incoming.accept,
            "node": here.accept, "node there": there.accept, "closed": outgoing.closed, "closed there": incoming.closed,
            "events": lambda: list(outgoing.events()) and "", "stream events": lambda: list(stream.events()),
            "promises": lambda: list(stream.promises()),
        }  # fmt: skip
        threads = [threading.Thread(target=wait, args=call, daemon=True) for call in calls.items()]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        here.shutdown()
        there.shutdown()
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual(sorted(line.partition(":")[0] for line in ended), sorted(calls))


if __name__ == "__main__":
    unittest.main()
