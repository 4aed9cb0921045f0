"""A promise over two paths, and a plot of the windows in which it was kept.

A stream demands 2 Mbit/s in 95 % of all seconds, beside bulk data that fills both paths. Nothing can be promised before the paths
are known, so the first demand is refused, with a reason; after some traffic, a stream that waits is promised its rate. Then one of the
paths loses most of its rate: the bulk data gives way.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

import anabranch
from _plots import options, pyplot
from anabranch import Emulator, Rate, reports

LINKS = {"wifi": "rate=12 Mbit/s, delay=5 ms, queue=100 ms", "lte": "rate=6 Mbit/s, delay=25 ms, queue=200 ms"}
#: Seconds of bulk data before the demand: a renewable promise needs 20 of traffic.
KNOWN_S = 22
#: Seconds from the promise until the first path becomes slow, and from that until all ends.
BEFORE_S, AFTER_S = 6, 8
#: Longest wait for the promise, in seconds.
WAIT_S = 90


@dataclass
class Second:
    """One second of the run."""

    #: Bytes that arrived, by the label of their stream.
    arrived: dict[str, int] = field(default_factory=dict)
    #: Windows of the promise that ended in it.
    kept: int = 0
    broken: int = 0
    #: An event in it, in words.
    event: str | None = None


async def read(stream: anabranch.Stream, seconds: list[Second]) -> None:
    """Counts what arrives."""
    try:
        async for message in stream:
            arrived = seconds[-1].arrived
            arrived[stream.label] = arrived.get(stream.label, 0) + len(message)
    except anabranch.AnabranchError:
        # The sender is gone.
        return


async def receive(session: anabranch.Session, seconds: list[Second]) -> None:
    """Reads every stream that the peer opens."""
    readers = [asyncio.create_task(read(stream, seconds)) async for stream in session.streams()]
    await asyncio.gather(*readers)


async def send(stream: anabranch.Stream) -> None:
    """2 Mbit/s, as frames of 10 kB."""
    for number in itertools.count():
        await stream.send(number.to_bytes(8, "big") * 1250)
        await asyncio.sleep(0.04)


async def fill(stream: anabranch.Stream) -> None:
    """Bulk data, as fast as it goes."""
    while True:
        await stream.send(bytes(20_000))


async def report(stream: anabranch.Stream) -> None:
    """Prints what becomes of the promise."""
    async for event in stream.promises():
        text = f"{event.text}, {event.summary}" if isinstance(event, reports.Promised) else event
        print(f"{type(event).__name__}: {text}")


async def watch(stream: anabranch.Stream, links: Emulator, seconds: list[Second]) -> None:
    """Notes every second which windows were kept, and slows a path down some time after the promise."""
    kept = broken = since = 0
    while since < BEFORE_S + AFTER_S:
        await asyncio.sleep(1)
        explained = await stream.explain()
        assert explained is not None and len(seconds) < WAIT_S, "nothing was promised"
        seconds[-1].kept, seconds[-1].broken = explained.windows_kept - kept, explained.windows_broken - broken
        kept, broken = explained.windows_kept, explained.windows_broken
        seconds.append(Second())
        since += since > 0 or explained.grade is not None
        if since == 1:
            seconds[-1].event = "promised"
        elif since == BEFORE_S:
            seconds[-1].event = "a path becomes slow"
            links.set("wifi", "rate=2 Mbit/s, delay=5 ms, queue=100 ms")
    print(f"kept in {kept} windows, broken in {broken}")


async def run() -> list[Second]:
    """The seconds of a run."""
    seconds = [Second()]
    async with (
        anabranch.Node(bind=["127.0.0.1:0"]) as here,
        anabranch.Node(bind=["127.0.0.1:0"], allow=[here.id]) as there,
    ):
        with Emulator(there.addresses()[0], LINKS) as links:
            async with here.connect(there.id, links.addresses) as session:
                incoming = await there.accept()
                assert incoming is not None
                receiving = asyncio.create_task(receive(incoming, seconds))
                try:
                    await session.open("frames", guarantee=Rate("2 Mbit/s", 0.95))
                except anabranch.Refused as refused:
                    print(f"refused ({refused.reason}): {refused}")

                tasks = [asyncio.create_task(fill(await session.open("bulk", profile="bulk")))]
                for _ in range(KNOWN_S):
                    await asyncio.sleep(1)
                    seconds.append(Second())
                demand = Rate("2 Mbit/s", 0.95, waits=True)
                stream = await session.open("frames", guarantee=demand, ordered=False, deadline="1 s")
                tasks += [asyncio.create_task(task) for task in (send(stream), report(stream))]
                await watch(stream, links, seconds)
                for task in tasks:
                    task.cancel()
            await receiving
    return seconds[:-1]


def plot(plt: Any, seconds: list[Second]) -> Any:
    """Rates of both streams by second, and below them the windows of the promise."""
    figure, (rates, windows) = plt.subplots(2, 1, sharex=True, height_ratios=[4, 1], figsize=(8, 5), layout="constrained")
    times = range(len(seconds))
    frames, bulk = ([second.arrived.get(label, 0) * 8e-6 for second in seconds] for label in ("frames", "bulk"))
    rates.bar(times, frames, width=1, align="edge", color="tab:blue", label="frames, promised 2 Mbit/s")
    rates.bar(times, bulk, bottom=frames, width=1, align="edge", color="lightgray", label="bulk data")
    rates.axhline(2, color="tab:blue", linestyle="--")
    for time in times:
        if seconds[time].event:
            for axes in (rates, windows):
                axes.axvline(time, color="black", linestyle=":")
            rates.annotate(seconds[time].event, (time + 0.2, 0.9), xycoords=("data", "axes fraction"))
    rates.set(ylabel="Mbit/s", title="A promise over two paths", ylim=(0, 25))
    rates.legend(loc="upper left")
    for name, color in (("kept", "tab:green"), ("broken", "tab:red")):
        counts = [getattr(second, name) for second in seconds]
        windows.bar(times, counts, width=0.9, align="edge", color=color, label=name)
    windows.set(xlabel="s", ylabel="windows")
    windows.legend(loc="upper left")
    return figure


def main() -> None:
    chosen = options(__doc__, "promise.png")
    seconds = asyncio.run(run())
    plt = pyplot(chosen.show)
    if plt is None:
        return
    figure = plot(plt, seconds)
    if chosen.show:
        plt.show()
    else:
        figure.savefig(chosen.file)
        print(f"plot: {chosen.file}")


main()
