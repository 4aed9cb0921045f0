"""Rates of the Python library beside those of Rust programs that do the same, in turns, and the processor time of both.

    python bench/rate.py RATE [RUNS] [BULK]

RATE is `cargo build --release --manifest-path python/Cargo.toml --example rate`, a loop like the one here (`rate.rs`); BULK is `cargo build
--release --manifest-path tools/bulk/Cargo.toml`, a transfer between two processes. Both ends of RATE and of this program are in one
process. Everything goes over loopback: 1 MiB arrays from one thread to another, or messages of 100 bytes.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import numpy
from anabranch import sync

LARGE, SMALL = 400, 400_000
MIB = 1 << 20
#: Longest wait for a program that receives to be ready, in seconds.
READY_S = 30


def seconds(outgoing: sync.Session, incoming: sync.Session, count: int, size: int) -> float:
    """From the first to the last of ``count`` messages of ``size`` bytes; those of 1 MiB as arrays."""
    is_array = size >= MIB
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


def loop(program: str, count: int, size: int) -> tuple[float, float]:
    """The same of a loop in Rust."""
    before = used(resource.RUSAGE_CHILDREN)
    text = subprocess.run([program, str(count), str(size)], check=True, capture_output=True, text=True).stdout
    return float(text), (used(resource.RUSAGE_CHILDREN) - before) / count


def bulk(program: str, count: int, size: int) -> tuple[float, float]:
    """The same of a bulk transfer, in messages of ``size`` bytes."""
    before = used(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        ticket = os.path.join(folder, "ticket")
        receiving = subprocess.Popen([program, "ours", "receive", "127.0.0.1:0", ticket], stdout=subprocess.DEVNULL)
        try:
            ready = time.monotonic() + READY_S
            while not (os.path.exists(ticket) and os.path.getsize(ticket)):
                if time.monotonic() > ready:
                    raise TimeoutError("the receiver of the bulk transfer does not start")
                time.sleep(0.01)
            command = [program, "ours", "send", "127.0.0.1:0", ticket, str(count * size)]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            receiving.wait(READY_S)
        finally:
            receiving.kill()
            receiving.wait()
    bps: float = json.loads(text)["goodput_gbps"] * 1e9
    return bps / 8 / size, (used(resource.RUSAGE_CHILDREN) - before) / count


def spread(values: list[float]) -> str:
    """Median, and least and most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    program, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    large: dict[str, Callable[[], tuple[float, float]]] = {"Rust loop": lambda: loop(program, LARGE, MIB)}
    if len(sys.argv) > 3:
        large["Rust bulk transfer"] = lambda: bulk(sys.argv[3], LARGE, MIB)
    small: dict[str, Callable[[], tuple[float, float]]] = {"Rust loop": lambda: loop(program, SMALL, 100)}
    for name, count, size, others in (("1 MiB arrays", LARGE, MIB, large), ("messages of 100 bytes", SMALL, 100, small)):
        rates: dict[str, list[float]] = {other: [] for other in others}
        times: dict[str, list[float]] = {other: [] for other in others}
        for _ in range(runs):
            rate, busy = ours(count, size)
            words = [f"Python {rate:.0f}/s, {busy * 1e6:.1f} us of processor time each"]
            for other, measure in others.items():
                its_rate, its_busy = measure()
                rates[other].append(rate / its_rate)
                times[other].append(busy / its_busy)
                words.append(f"{other} {its_rate:.0f}/s, {its_busy * 1e6:.1f} us")
            print(f"{name}: {'; '.join(words)}", flush=True)
        for other in others:
            print(
                f"{name}: {spread(rates[other])} of the rate of the {other}, {spread(times[other])} of its processor time "
                f"(medians, least and most of {runs})"
            )


if __name__ == "__main__":
    main()
