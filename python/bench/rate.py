"""Rates of the Python library beside those of a Rust program that does the same (`rate.rs`), in turns.

    python bench/rate.py PROGRAM [RUNS]

PROGRAM is `cargo build --release --manifest-path python/Cargo.toml --example rate`. Both ends are in one process, over loopback:
1 MiB arrays from one thread to another, then messages of 100 bytes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time

import numpy
from anabranch import sync

LARGE, SMALL = 200, 50_000


def seconds(outgoing: sync.Session, incoming: sync.Session, count: int, size: int) -> float:
    """From the first to the last of ``count`` messages of ``size`` bytes; those of 1 MiB as arrays."""
    is_array = size >= 1 << 20
    array = numpy.full(size // 8, 7.0)
    data = bytes(size)
    received = 0

    def read() -> None:
        nonlocal received
        reader = incoming.accept()
        for _ in reader.arrays() if is_array else reader:
            received += 1

    thread = threading.Thread(target=read)
    stream = outgoing.open("rate")
    started = time.perf_counter()
    thread.start()
    for _ in range(count):
        if is_array:
            stream.send_array(array)
        else:
            stream.send(data)
    stream.finish()
    thread.join()
    assert received == count, received
    return time.perf_counter() - started


def ours() -> tuple[float, float]:
    with sync.Node(bind=["127.0.0.1:0"]) as here, sync.Node(bind=["127.0.0.1:0"], allow=[here.id]) as there:
        with here.connect(there.ticket()) as outgoing:
            incoming = there.accept()
            assert incoming is not None
            large = LARGE * (1 << 20) / 1e6 / seconds(outgoing, incoming, LARGE, 1 << 20)
            return large, SMALL / seconds(outgoing, incoming, SMALL, 100)


def main() -> None:
    program, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rows = []
    for _ in range(runs):
        text = subprocess.run([program, str(LARGE), str(SMALL)], check=True, capture_output=True, text=True).stdout
        large, small = map(float, text.split())
        rows.append(((large, small), ours()))
        print(f"Rust {large:.0f} MB/s {small:.0f}/s, Python {rows[-1][1][0]:.0f} MB/s {rows[-1][1][1]:.0f}/s", flush=True)
    for index, name in enumerate(("1 MiB arrays", "small messages")):
        ratio = statistics.median(python[index] / rust[index] for rust, python in rows)
        print(f"{name}: {ratio:.2f} of the Rust program's rate (median of {runs})")


if __name__ == "__main__":
    main()
