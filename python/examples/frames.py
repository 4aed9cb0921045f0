"""Frames with a lifetime: those for which there is no room are dropped before they are sent, and the others arrive in time.

Frames of 20 kB, 30 a second, are 4.8 Mbit/s, and the stream is capped at 2 Mbit/s as a stand-in for a thin network. No event
loop: this is the synchronous interface, with a thread for each end.
"""

import threading
import time

from anabranch import sync

FRAMES, FRAME_BYTES, INTERVAL_S, LIFETIME_S = 90, 20_000, 1 / 30, 0.2


def show(session: sync.Session, ages: list[float]) -> None:
    """Notes the age of each frame that arrives; both ends have one clock here."""
    for frame in session.accept():
        sent = int.from_bytes(memoryview(frame)[:8], "big")
        ages.append((time.monotonic_ns() - sent) / 1e9)


def main() -> None:
    ages: list[float] = []
    with (
        sync.Node(bind=["127.0.0.1:0"]) as camera,
        sync.Node(bind=["127.0.0.1:0"], allow=[camera.id]) as screen,
        camera.connect(screen.ticket()) as session,
    ):
        incoming = screen.accept()
        assert incoming is not None
        thread = threading.Thread(target=show, args=(incoming, ages))
        thread.start()
        with session.open(
            "frames", deadline=LIFETIME_S, ordered=False, reliable=False, drop="oldest", cap="2 Mbit/s"
        ) as stream:
            for _ in range(FRAMES):
                stream.send(time.monotonic_ns().to_bytes(8, "big") + bytes(FRAME_BYTES - 8))
                time.sleep(INTERVAL_S)
            [stats] = session.stream_stats()
        thread.join()
    in_time = [age for age in ages if age <= LIFETIME_S]
    print(f"{len(ages)} of {FRAMES} frames arrived, {len(in_time)} within {LIFETIME_S} s, the oldest {max(ages):.3f} s old")
    print(f"{stats.dropped} were dropped because there was no room, {stats.expired} because they would have been late")


main()
