"""NumPy arrays as messages."""

from __future__ import annotations

import asyncio
import json
import struct
import unittest
from typing import Any

import anabranch

from .support import LIMIT, pair, sync_pair, timeout

try:
    import numpy
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

RECORD = numpy.dtype(
    [("time", "<M8[ns]"), ("name", "U8"), ("position", "<f4", (3,)), ("state", [("ok", "?"), ("code", ">u2")])],
    align=True,
)


def message(described: object, data: bytes = b"", **changes: Any) -> bytes:
    text = described if isinstance(described, bytes) else json.dumps(described).encode()
    length = changes.get("length", len(text))
    padding = changes.get("padding", 0)
    return struct.pack("<4sHH", changes.get("magic", b"ABA1"), length, padding) + text + data


class Arrays(unittest.IsolatedAsyncioTestCase):
    async def test_arrays_arrive_as_they_were_sent(self) -> None:
        records = numpy.zeros(5, RECORD)
        records["name"] = "probe"
        records["position"] = [[1, 2, 3]] * 5
        records["state"]["code"] = 513
        arrays: list[Any] = [
            numpy.arange(12, dtype="<f8").reshape(3, 4),
            numpy.asfortranarray(numpy.arange(12, dtype=">i2").reshape(3, 4)),
            numpy.arange(20)[::3],
            numpy.array(7.5),
            numpy.empty((0, 3), numpy.float32),
            numpy.array([True, False]),
            numpy.array([1 + 2j], numpy.complex64),
            numpy.array(["2026-01-01"], "<M8[D]"),
            numpy.array([b"abc", b""], "S3"),
            numpy.array(["žluťoučký", "kůň"]),
            records,
            numpy.zeros((300, 1000), numpy.float32),
        ]
        async with timeout(LIMIT), pair() as (outgoing, incoming):

            async def write() -> None:
                async with await outgoing.open("arrays") as stream:
                    for array in arrays:
                        await stream.send_array(array)

            async def read() -> list[Any]:
                return [array async for array in (await incoming.accept()).arrays()]

            _, received = await asyncio.gather(write(), read())
        self.assertEqual(len(received), len(arrays))
        for sent, found in zip(arrays, received, strict=True):
            with self.subTest(str(sent.dtype)):
                self.assertEqual((found.dtype, found.shape), (sent.dtype, sent.shape))
                numpy.testing.assert_array_equal(found, sent)
                self.assertFalse(found.flags.writeable)
        self.assertTrue(received[1].flags.f_contiguous)

    async def test_an_array_lies_in_the_memory_of_its_message(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, incoming):
            stream = await outgoing.open("memory")
            await stream.send_array(numpy.ones(1000))
            raw = await (await incoming.accept()).receive()
            assert raw is not None
            array = anabranch.arrays.decode(raw)
            whole = numpy.frombuffer(memoryview(raw), numpy.uint8)
            self.assertTrue(numpy.shares_memory(array, whole))
            del raw, whole
            self.assertEqual(array.sum(), 1000)

    async def test_python_objects_are_not_sent(self) -> None:
        async with timeout(LIMIT), pair() as (outgoing, _):
            stream = await outgoing.open("objects")
            for array in (numpy.array([object()]), numpy.zeros(1, [("x", "O")])):
                with self.assertRaisesRegex(anabranch.ArrayError, "Python objects"):
                    await stream.send_array(array)


class Malformed(unittest.TestCase):
    def test_malformed_headers_raise_and_the_stream_goes_on(self) -> None:
        plain = {"dtype": "<f8", "shape": [1], "order": "C"}
        nested: object = "<u1"
        for _ in range(20):
            nested = {"base": nested, "shape": [1]}
        wrong = [
            ("too few", b"abc"),
            ("not an array", message(plain, bytes(8), magic=b"\x93NUM")),
            ("cut off", message(plain, bytes(8), length=500)),
            ("too long", message(b"[" * 20_000)),
            ("cut off", message(plain, bytes(8), padding=64)),
            ("not JSON", message(b"\xff\xfe")),
            ("not JSON", message(b"[" * 10_000)),
            ("exactly", message([])),
            ("exactly", message({"dtype": "<f8", "shape": [1]}, bytes(8))),
            ("exactly", message(plain | {"more": 1}, bytes(8))),
            ("order", message(plain | {"order": "K"}, bytes(8))),
            ("shape", message(plain | {"shape": 1}, bytes(8))),
            ("shape", message(plain | {"shape": [-1]}, bytes(8))),
            ("shape", message(plain | {"shape": [True]}, bytes(8))),
            ("shape", message(plain | {"shape": [1.0]}, bytes(8))),
            ("shape", message(plain | {"shape": [1] * 33}, bytes(8))),
            ("shape", message(plain | {"shape": [1 << 40]}, bytes(8))),
            ("8 bytes, and 7", message(plain, bytes(7))),
            ("8 bytes, and 9", message(plain, bytes(9))),
            ("follow", message(plain | {"shape": [1 << 24] * 30}, bytes(8))),
            ("not a dtype", message(plain | {"dtype": "|O"}, bytes(8))),
            ("not a dtype", message(plain | {"dtype": "<f8,<f8"}, bytes(16))),
            ("not a dtype", message(plain | {"dtype": "__import__('os')"}, bytes(8))),
            ("not a dtype", message(plain | {"dtype": "<f99"}, bytes(8))),
            ("not a dtype", message(plain | {"dtype": "|V999999999"}, bytes(8))),
            ("neither", message(plain | {"dtype": 7}, bytes(8))),
            ("unknown keys", message(plain | {"dtype": {}}, bytes(8))),
            ("nested", message(plain | {"dtype": nested}, bytes(1))),
            ("no fields", message(plain | {"dtype": {"fields": [], "size": 8}}, bytes(8))),
            ("fields", message(plain | {"dtype": {"fields": [["a", "<f8", 0]] * 257, "size": 8}}, bytes(8))),
            ("not a name", message(plain | {"dtype": {"fields": [["a", "<f8"]], "size": 8}}, bytes(8))),
            ("not a name", message(plain | {"dtype": {"fields": [[1, "<f8", 0]], "size": 8}}, bytes(8))),
            ("not valid", message(plain | {"dtype": {"fields": [["a", "<f8", 4]], "size": 8}}, bytes(8))),
            ("not valid", message(plain | {"dtype": {"fields": [["a", "<u1", 0]] * 2, "size": 8}}, bytes(8))),
            ("not a dtype", message(plain | {"dtype": {"fields": [["a", "|O", 0]], "size": 8}}, bytes(8))),
            ("larger", message(plain | {"dtype": {"base": "<f8", "shape": [1 << 23]}}, bytes(8))),
        ]
        with sync_pair() as (outgoing, incoming):
            with outgoing.open("malformed") as stream:
                for _, data in wrong:
                    stream.send(data)
                stream.send_array(numpy.arange(3))
            reader = incoming.accept(LIMIT)
            for text, _ in wrong:
                with self.subTest(text), self.assertRaisesRegex(anabranch.ArrayError, text):
                    reader.receive_array(LIMIT)
            array = reader.receive_array(LIMIT)
            assert array is not None
            self.assertEqual(array.tolist(), [0, 1, 2])
            self.assertIsNone(reader.receive_array(LIMIT))
