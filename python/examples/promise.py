"""Two nodes in one process, and a promise between them.

A stream demands 2 Mbit/s in 95 % of all seconds. Nothing can be promised before the paths are known, so the first demand is
refused, with a reason; a stream that waits is promised its rate once there was traffic for long enough. A bulk stream beside it
shows that the path carries more than that.
"""

import asyncio
import itertools
import time

import anabranch
from anabranch import Rate, reports


async def drain(session: anabranch.Session) -> None:
    """Reads everything that the peer sends."""
    async with asyncio.TaskGroup() as readers:
        async for stream in session.streams():
            readers.create_task(read(stream))


async def read(stream: anabranch.Stream) -> None:
    try:
        async for _ in stream:
            pass
    except anabranch.AnabranchError:
        # The sender is gone.
        return


async def send(stream: anabranch.Stream) -> None:
    """2 Mbit/s, as frames of 10 kB."""
    for number in itertools.count():
        await stream.send(number.to_bytes(8, "big") * 1250)
        await asyncio.sleep(0.04)


async def fill(stream: anabranch.Stream) -> None:
    """Bulk data, as fast as its cap allows."""
    while True:
        await stream.send(bytes(50_000))


async def main() -> None:
    demand = Rate("2 Mbit/s", 0.95)
    async with (
        anabranch.Node(bind=["127.0.0.1:0"]) as here,
        anabranch.Node(bind=["127.0.0.1:0"], allow=[here.id]) as there,
        here.connect(there.ticket()) as session,
    ):
        incoming = await there.accept()
        assert incoming is not None
        reading = asyncio.create_task(drain(incoming))
        try:
            await session.open("frames", guarantee=demand)
        except anabranch.Refused as refused:
            print(f"refused ({refused.reason}): {refused}")
            print(f"offered instead: {refused.offer}")

        waiting = Rate("2 Mbit/s", 0.95, waits=True)
        stream = await session.open("frames", guarantee=waiting, ordered=False, deadline="1 s")
        bulk = await session.open("bulk", profile="bulk", cap="20 Mbit/s")
        sending = [asyncio.create_task(send(stream)), asyncio.create_task(fill(bulk))]
        started = time.monotonic()
        async with asyncio.timeout(90):
            async for event in stream.promises():
                if isinstance(event, reports.Promised):
                    print(f"promised after {time.monotonic() - started:.0f} s: {event.text}, {event.summary}")
                    break
                print(event)
        await asyncio.sleep(3)
        explained = await stream.explain()
        assert explained is not None
        print(f"kept in {explained.windows_kept} windows, broken in {explained.windows_broken}")
        for task in sending:
            task.cancel()
        session.close()
        await reading


asyncio.run(main())
