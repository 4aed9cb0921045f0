"""Objectives: a drone's video and telemetry over two paths, of which one loses packets.

Key frames are worth much when they are likely to arrive, the frames between them when they are early, and telemetry gives way. The objectives
say so in HOSE (docs/hose.md); the policy ``assign`` puts messages into the slots in which they are worth most. Halfway, other objectives
take their place.
"""

from __future__ import annotations

import asyncio

import anabranch
from anabranch import Emulator

LINKS = {"lte": "rate=3 Mbit/s, delay=20 ms, loss=8 %", "satellite": "rate=3 Mbit/s, delay=120 ms"}
FRAMES, GROUP = 180, 10

OBJECTIVES = """hose 2

field frame: string

// A group of pictures depends on its key frame: a hundred for each percent by which it is likelier to arrive.
objective key_frames_safe {
  context { adu:key { (label == "video") && (frame == "I") } }
  goal { prob(key::lost?) < 100 }
  utility { key { 100 * (100 - prob(key::lost?)) } }
}

// The other frames should be early.
objective frames_early {
  context { adu:f { (label == "video") && (frame == "P") } }
  goal { expected(f::latency) < 500 }
  utility { f { 500 - expected(f::latency) } }
}
"""

#: Every frame should be early, and no frame is worth more than another.
EARLY = """hose 2

objective frames_early {
  context { adu:f { label == "video" } }
  goal { expected(f::latency) < 500 }
  utility { f { 500 - expected(f::latency) } }
}
"""


async def camera(session: anabranch.Session) -> None:
    """Thirty frames a second, every tenth of them a key frame, which nothing sends again."""
    async with await session.open("video", reliable=False, ordered=False, deadline="500 ms") as stream:
        for number in range(FRAMES):
            if number == FRAMES // 2:
                await session.set_objectives(EARLY)
            is_key = number % GROUP == 0
            fields = {"frame": "I" if is_key else "P"}
            await stream.send(number.to_bytes(2, "big") * (3000 if is_key else 1000), fields=fields)
            await asyncio.sleep(1 / 30)
            if number % 60 == 59:
                await show(session, number)


async def show(session: anabranch.Session, number: int) -> None:
    """Prints what the objectives did in the last minute."""
    for objective in await session.objectives():
        print(
            f"after frame {number}: {objective.name}, goal met in {objective.contexts_met} of {objective.contexts} cases, "
            f"utility {objective.utility:.0f}"
        )


async def screen(session: anabranch.Session) -> list[int]:
    """The numbers of the frames that arrive."""
    stream = await session.accept()
    return [int.from_bytes(memoryview(frame)[:2], "big") async for frame in stream]


async def main() -> None:
    wrong = OBJECTIVES.replace("lost?", "lots?")
    for finding in anabranch.objectives.check(wrong)[:1]:
        print(f"a spelling mistake is found at {finding.line}:{finding.column}: {finding.text} ({finding.help})")
    async with (
        anabranch.Node(bind=["127.0.0.1:0"]) as drone,
        anabranch.Node(bind=["127.0.0.1:0"], allow=[drone.id]) as ground,
    ):
        with Emulator(ground.addresses()[0], LINKS, seed=3) as links:
            async with drone.connect(ground.id, links.addresses) as session:
                incoming = await ground.accept()
                assert incoming is not None
                receiving = asyncio.create_task(screen(incoming))
                session.set_policy("assign")
                await session.set_objectives(OBJECTIVES)
                await camera(session)
                arrived = set(await receiving)
    half = FRAMES // 2
    for name, numbers in (("with objectives for key frames", range(half)), ("with one for early frames", range(half, FRAMES))):
        keys = [number for number in numbers if number % GROUP == 0]
        others = [number for number in numbers if number % GROUP]
        print(
            f"{name}: {len(arrived.intersection(keys))} of {len(keys)} key frames, "
            f"{len(arrived.intersection(others))} of {len(others)} others"
        )


asyncio.run(main())
