"""Objectives, header fields, pinned streams, and emulated links."""

from __future__ import annotations

import asyncio
import unittest

import anabranch
from anabranch import Emulator, reports

from .support import LIMIT, LOOPBACK, pair, sync_pair, timeout

KEY_FRAMES = """hose 2

field frame: string

objective key_frames {
  context { adu:key { (label == "video") && (frame == "I") } }
  goal { prob(key::lost?) < 100 }
  utility { key { 100 * (100 - prob(key::lost?)) } }
}
"""


class Texts(unittest.TestCase):
    def test_findings_have_places(self) -> None:
        self.assertEqual(anabranch.objectives.check(KEY_FRAMES), [])
        wrong = KEY_FRAMES.replace("prob(key::lost?) <", "prob(key::lots?) <")
        [finding] = anabranch.objectives.check(wrong)
        self.assertTrue(finding.is_error)
        self.assertEqual(finding.line, 7)
        self.assertGreater(finding.column, 10)
        self.assertIn("lots", finding.text)
        self.assertIn("lost?", str(finding.help))


class Objectives(unittest.IsolatedAsyncioTestCase):
    async def test_what_objectives_do_is_reported(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stats = outgoing.stats()
            assert stats is not None
            self.assertEqual(stats.policy, "default")
            outgoing.set_policy("assign")
            ids, warnings = await outgoing.add_objectives(KEY_FRAMES)
            self.assertEqual((len(ids), warnings), (1, []))
            stream = await outgoing.open("video", ordered=False)
            for number in range(40):
                fields = {"frame": "I" if number % 10 == 0 else "P"}
                self.assertEqual(await stream.send(bytes(2000), fields=fields), number)
            stream.finish()
            self.assertEqual(len([0 async for _ in await incoming.accept()]), 40)
            while True:
                [objective] = await outgoing.objectives()
                if objective.contexts == 4:
                    break
                await asyncio.sleep(0.05)
            self.assertEqual((objective.id, objective.name, objective.kind), (ids[0], "key_frames", "single"))
            self.assertIn("context", objective.text)
            self.assertEqual((objective.contexts_faulty, objective.faults), (0, []))
            assert objective.contexts_met is not None and objective.utility is not None
            if objective.contexts_met:
                self.assertGreater(objective.utility, 0)
            stats = outgoing.stats()
            assert stats is not None
            self.assertEqual(stats.policy, "assign")

    async def test_all_objectives_are_replaced_or_none(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            [first], _ = await outgoing.set_objectives(KEY_FRAMES)
            with self.assertRaises(anabranch.ObjectiveError) as refused:
                await outgoing.set_objectives("hose 2\nobjective {\n  goal { 1 < }\n}")
            self.assertEqual([(found.is_error, found.line) for found in refused.exception.findings][:1], [(True, 3)])
            self.assertIn("objectives:3", str(refused.exception))
            self.assertEqual([one.id for one in await outgoing.objectives()], [first])
            [second], _ = await outgoing.set_objectives(KEY_FRAMES.replace("100 *", "50 *"))
            self.assertNotEqual(first, second)
            self.assertEqual([one.id for one in await outgoing.objectives()], [second])
            self.assertTrue(await outgoing.remove_objective(second))
            self.assertFalse(await outgoing.remove_objective(second))

    async def test_faults_are_events(self) -> None:
        """A field that no message has."""
        text = """hose 2
field size: numeric
objective small { context { adu:a { label == "x" } } goal { a::size < 5 } utility { a { 1 } } }"""
        async with timeout(LIMIT), pair() as (outgoing, _):
            outgoing.set_policy("assign")
            [number], _ = await outgoing.add_objectives(text)
            stream = await outgoing.open("x", ordered=False)
            await stream.send(b"without the field")
            async for event in outgoing.events():
                if isinstance(event, reports.ObjectiveFault):
                    self.assertEqual(event.objective, number)
                    self.assertTrue(event.faults)
                    return
            self.fail("no fault was reported")

    async def test_wrong_policies_and_fields_are_refused(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            with self.assertRaisesRegex(anabranch.SpecError, "did you mean 'assign'"):
                outgoing.set_policy("asign")
            await outgoing.add_objectives(KEY_FRAMES)
            stream = await outgoing.open("video")
            with self.assertRaisesRegex(anabranch.AnabranchError, "frame"):
                await stream.send(b"x", fields={"frame": 3.0})
            with self.assertRaisesRegex(anabranch.AnabranchError, "frame"):
                await stream.send_array([1.0, 2.0], fields={"frame": 3.0})
            with self.assertRaises(TypeError):
                await stream.send(b"x", fields={"frame": [1]})  # type: ignore[dict-item]
            self.assertEqual(await stream.send(b"x", fields={"frame": "P", "is_last": True, "weight": 2}), 0)
            self.assertIsInstance(await stream.update_fields(0, {"frame": "I"}), bool)


class SyncObjectives(unittest.TestCase):
    def test_the_same_without_asyncio(self) -> None:
        with sync_pair() as (outgoing, incoming):
            outgoing.set_policy("assign")
            ids, warnings = outgoing.set_objectives(KEY_FRAMES)
            self.assertEqual((len(ids), warnings), (1, []))
            with outgoing.open("video", ordered=False) as stream:
                stream.send(b"key", fields={"frame": "I"}, timeout=LIMIT)
                stream.update_fields(0, {"frame": "P"})
                reader = incoming.accept(LIMIT)
                self.assertEqual(bytes(reader.receive(LIMIT) or b""), b"key")
            self.assertEqual([one.name for one in outgoing.objectives()], ["key_frames"])
            self.assertTrue(outgoing.remove_objective(ids[0]))


class Adjustments(unittest.IsolatedAsyncioTestCase):
    async def test_a_stream_is_adjusted_while_it_runs(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            stream = await outgoing.open("live", reliable=False, cap="2 Mbit/s", drop="oldest")
            await stream.adjust(weight=300, cap=5e6, drop="newest")
            await stream.adjust(cap="none", drop="none", redundant=True)
            await stream.adjust(priority="urgent", deadline=0.5)
            await stream.adjust(priority=7, deadline="none")
            with self.assertRaisesRegex(anabranch.AnabranchError, "lifetime"):
                await stream.adjust(deadline=0)
            with self.assertRaisesRegex(anabranch.AnabranchError, "weight"):
                await stream.adjust(weight=0)
            with self.assertRaisesRegex(anabranch.SpecError, "cap"):
                await stream.adjust(cap="fast")

    async def test_what_waits_is_given_up_for_something_newer(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stream = await outgoing.open("view", reliable=False, cap="64 kbit/s", notify=True)
            for _ in range(20):
                await stream.send(bytes(10_000))
            discarded = await stream.discard()
            self.assertIsInstance(discarded, anabranch.Discarded)
            self.assertGreater(discarded.messages, 10)
            self.assertEqual(discarded.message_bytes, 10_000 * discarded.messages)
            dropped: set[int] = set()
            async for event in stream.events():
                if isinstance(event, reports.Dropped):
                    dropped.add(event.message)
                if len(dropped) == discarded.messages:
                    break
            newest = await stream.send(b"new")
            stream.finish()
            reader = await incoming.accept()
            received = {message.sequence: bytes(message) async for message in reader}
            self.assertEqual(received[newest], b"new")
            self.assertTrue(dropped.isdisjoint(received))
            whole = await outgoing.open("file")
            with self.assertRaisesRegex(anabranch.AnabranchError, "reliable"):
                await whole.discard()

    async def test_fragments_are_events(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            stream = await outgoing.open("parts", notify_fragments=True)
            await stream.send(bytes(5000))
            got = 0
            async for event in stream.events():
                if isinstance(event, reports.Fragment):
                    self.assertEqual(event.message, 0)
                    self.assertIsNotNone(event.rtt_s)
                    got += event.end - event.start
                    if got == 5000:
                        return


class Links(unittest.IsolatedAsyncioTestCase):
    async def test_a_pinned_stream_takes_its_path(self) -> None:
        async with (
            timeout(LIMIT),
            anabranch.Node(bind=LOOPBACK) as here,
            anabranch.Node(bind=LOOPBACK, allow=[here.id]) as there,
        ):
            with Emulator(there.addresses()[0], {"left": "delay=5 ms", "right": "delay=5 ms"}) as links:
                async with here.connect(there.id, links.addresses) as session:
                    incoming = await there.accept()
                    assert incoming is not None
                    while len([path for path in session.paths() if path.is_active]) < 2:
                        await asyncio.sleep(0.05)
                    by_address = {path.remote: path.path for path in session.paths()}
                    for name in ("left", "right"):
                        before = {each: links.stats(each)[0].delivered_bytes for each in ("left", "right")}
                        async with await session.open(name, pinned=by_address[links.address(name)]) as stream:
                            await stream.send(bytes(200_000))
                        grown = {each: links.stats(each)[0].delivered_bytes - before[each] for each in before}
                        self.assertGreater(grown[name], 200_000)
                        self.assertLess(min(grown.values()), 100_000, grown)

    async def test_a_cut_path_is_replaced_by_the_other(self) -> None:
        async with (
            timeout(LIMIT),
            anabranch.Node(bind=LOOPBACK) as here,
            anabranch.Node(bind=LOOPBACK, allow=[here.id]) as there,
        ):
            with Emulator(there.addresses()[0], {"a": "rate=10 Mbit/s, delay=5 ms", "b": "rate=10 Mbit/s, delay=9 ms"}) as links:
                async with here.connect(there.id, links.addresses) as session:
                    incoming = await there.accept()
                    assert incoming is not None
                    while len([path for path in session.paths() if path.is_active]) < 2:
                        await asyncio.sleep(0.05)
                    async with await session.open("numbers") as stream:
                        for number in range(300):
                            if number == 100:
                                links.cut("a")
                            if number == 200:
                                while not links.stats("a")[0].down:
                                    await asyncio.sleep(0.01)
                                links.restore("a")
                                links.set("a", "rate=2 Mbit/s, loss=2 %")
                            await stream.send(number.to_bytes(2, "big") * 2000)
                    reader = await incoming.accept()
                    numbers = [int.from_bytes(memoryview(message)[:2], "big") async for message in reader]
                    self.assertEqual(numbers, list(range(300)))

    def test_wrong_links_are_refused(self) -> None:
        with self.assertRaisesRegex(anabranch.SpecError, "link 'a'.*rat"):
            Emulator("127.0.0.1:9", {"a": "rat=3"})
        with self.assertRaisesRegex(anabranch.SpecError, "IP:PORT"):
            Emulator("localhost", {"a": ""})
        with self.assertRaisesRegex(anabranch.SpecError, "cannot read"):
            Emulator("127.0.0.1:9", {"a": "rate=trace /no/such/file"})
        links = Emulator("127.0.0.1:9", {"a": "delay=1 ms"})
        with self.assertRaisesRegex(KeyError, "the links are a"):
            links.cut("b")
        links.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            links.cut("a")

    async def test_a_fixed_controller_holds_its_rate(self) -> None:
        with self.assertRaisesRegex(anabranch.SpecError, "controller: 'fast'"):
            anabranch.Node(bind=LOOPBACK, controller="fast")
        async with (
            timeout(LIMIT),
            anabranch.Node(bind=LOOPBACK, controller="fixed 8 Mbit/s") as here,
            anabranch.Node(bind=LOOPBACK, allow=[here.id]) as there,
            here.connect(there.ticket()) as session,
        ):
            loop = asyncio.get_running_loop()
            started = loop.time()
            async with await session.open("bulk") as stream:
                for _ in range(20):
                    await stream.send(bytes(50_000))
            # A megabyte takes a second, however quick the machine is.
            self.assertGreater(loop.time() - started, 0.8)
