"""Camera-like frames with a lifetime of 200 ms over a link that is too thin for them: those for which there is no room are dropped before
they are sent, and the others arrive in time.

Frames of 20 kB, 30 a second, are 4.8 Mbit/s; the link carries 2 Mbit/s. No event loop: this is the synchronous interface, with a thread
for each end.
"""

import threading
import time

from anabranch import Emulator, sync

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
        Emulator(screen.addresses()[0], {"radio": "rate=2 Mbit/s, delay=20 ms, queue=500 ms"}) as link,
        camera.connect(screen.id, link.addresses) as session,
    ):
        incoming = screen.accept()
        assert incoming is not None
        showing = threading.Thread(target=show, args=(incoming, ages))
        showing.start()
        with session.open(
            "camera", reliable=False, ordered=False, deadline=LIFETIME_S, drop="oldest", priority="urgent"
        ) as stream:
            for _ in range(FRAMES):
                stamp = time.monotonic_ns().to_bytes(8, "big")
                stream.send(stamp + bytes(FRAME_BYTES - 8))
                time.sleep(INTERVAL_S)
            [stats] = session.stream_stats()
        showing.join()
    ages.sort()
    print(f"{len(ages)} of {FRAMES} frames arrived; half of them at most {ages[len(ages) // 2]:.3f} s old, the oldest {ages[-1]:.3f} s")
    print(f"{stats.dropped} were dropped because there was no room, {stats.expired} because they would have been late")


main()
