"""Rates of the Python library beside those of a Rust program that does the same (`rate.rs`), in turns, and the processor time of
both: on a busy machine only that is steady.

    python bench/rate.py PROGRAM [RUNS]

PROGRAM is `cargo build --release --manifest-path python/Cargo.toml --example rate`. Both ends are in one process, over loopback:
1 MiB arrays from one thread to another, or messages of 100 bytes.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import threading
import time

import numpy
from anabranch import sync

LARGE, SMALL = 400, 400_000


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


def used(who: int) -> float:
    """Processor time, in seconds."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def ours(count: int, size: int) -> tuple[float, float]:
    """Messages a second, and processor time of each in seconds."""
    with sync.Node(bind=["127.0.0.1:0"]) as here, sync.Node(bind=["127.0.0.1:0"], allow=[here.id]) as there:
        with here.connect(there.ticket()) as outgoing:
            incoming = there.accept()
            assert incoming is not None
            before = used(resource.RUSAGE_SELF)
            took = seconds(outgoing, incoming, count, size)
            return count / took, (used(resource.RUSAGE_SELF) - before) / count


def theirs(program: str, count: int, size: int) -> tuple[float, float]:
    """The same of the Rust program."""
    before = used(resource.RUSAGE_CHILDREN)
    text = subprocess.run([program, str(count), str(size)], check=True, capture_output=True, text=True).stdout
    return float(text), (used(resource.RUSAGE_CHILDREN) - before) / count


def main() -> None:
    program, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for name, count, size in (("1 MiB arrays", LARGE, 1 << 20), ("messages of 100 bytes", SMALL, 100)):
        rates, times = [], []
        for _ in range(runs):
            (rust, rust_used), (python, python_used) = theirs(program, count, size), ours(count, size)
            print(
                f"{name}: Rust {rust:.0f}/s, {rust_used * 1e6:.1f} us of processor time each; "
                f"Python {python:.0f}/s, {python_used * 1e6:.1f} us",
                flush=True,
            )
            rates.append(python / rust)
            times.append(python_used / rust_used)
        print(
            f"{name}: {statistics.median(rates):.2f} of the Rust program's rate, {statistics.median(times):.2f} of its "
            f"processor time (medians of {runs})"
        )


if __name__ == "__main__":
    main()
