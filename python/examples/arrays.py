"""NumPy arrays and structured records as messages, received without a copy."""

import asyncio

import anabranch
import numpy

SAMPLE = numpy.dtype([("time", "<M8[us]"), ("channel", "<u2"), ("value", "<f4", (3,))])


async def measure(session: anabranch.Session) -> None:
    """Sends four images and a table of samples."""
    rng = numpy.random.default_rng(1)
    async with await session.open("images", profile="bulk") as stream:
        for _ in range(4):
            await stream.send_array(rng.normal(100.0, 5.0, (512, 512)).astype(numpy.float32))
    samples = numpy.zeros(1000, SAMPLE)
    samples["time"] = numpy.datetime64("2026-01-01", "us") + numpy.arange(1000)
    samples["channel"] = numpy.arange(1000) % 8
    samples["value"] = rng.random((1000, 3))
    async with await session.open("samples", profile="telemetry") as stream:
        await stream.send_array(samples)


async def analyse(session: anabranch.Session) -> None:
    """Prints what arrives."""
    async for stream in session.streams():
        async for array in stream.arrays():
            if stream.label == "images":
                print(f"image {array.shape} {array.dtype}: mean {array.mean():.2f}, deviation {array.std():.2f}")
            else:
                first = array[array["channel"] == 3][0]
                print(f"{array.size} samples; the first of channel 3 at {first['time']}: {first['value'].round(3)}")


async def main() -> None:
    async with (
        anabranch.Node(bind=["127.0.0.1:0"]) as laboratory,
        anabranch.Node(bind=["127.0.0.1:0"], allow=[laboratory.id]) as office,
    ):
        async with laboratory.connect(office.ticket()) as session:
            incoming = await office.accept()
            assert incoming is not None
            analysing = asyncio.create_task(analyse(incoming))
            await measure(session)
        # The session is closed: what was delivered is still read.
        await analysing


asyncio.run(main())
