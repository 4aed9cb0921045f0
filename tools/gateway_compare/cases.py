"""Cases of the comparison: links, load and what is measured (docs/performance.md)."""

import json
import statistics
import threading
import time

from .network import Failure
from .setups import client


class Case:
    """Links of a case and the programs that run over them; a download ends after so many seconds, if any are named."""

    def __init__(self, name, links, size, *, messages=False, outage=None, seconds=None):
        self.name = name
        self.links = links
        self.size = size
        self.messages = messages
        self.outage = outage
        self.seconds = seconds

    def links_of(self, _run):
        """Links of a run."""
        return self.links


class Meter:
    """Mean capacity of all links while it runs; of a link that is down, none."""

    def __init__(self, network):
        self.network = network
        self.samples = []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over.wait(0.1):
            try:
                self.samples.append(self.network.rate_mbps())
            except (OSError, ValueError):
                return  # the emulator ended: the run was given up

    def mean_mbps(self):
        self.is_over.set()
        self.thread.join()
        return statistics.fmean(self.samples)


def link(mbps, rtt_ms, *, loss="", walk=""):
    """Link with a drop-tail queue of a bandwidth-delay product; losses are those of the data's direction."""
    queue = int(mbps * 1e6 / 8 * rtt_ms / 1e3)
    one = f"rate={mbps} Mbit/s{walk}, delay={rtt_ms / 2} ms, queue={queue} B"
    return f"{one} ; {one}{loss}"


PAIR_B = [link(100, 20), link(50, 60)]
PAIR_C = [link(80, 30, loss=", loss=1 %"), link(40, 100, loss=", loss=0.1 %")]
WALK = " +- 50 % every 500 ms"
CASES = [
    Case("B", PAIR_B, 250_000_000),
    Case("C", PAIR_C, 120_000_000),
    Case("three", [link(12, 60, walk=WALK), link(6, 120, walk=WALK), link(2, 300, walk=WALK)], 20_000_000),
    Case("E", PAIR_B, 250_000_000, outage=(4, 9)),
    Case("F", PAIR_B, 150_000_000, messages=True),
]
# Beside the download of F: 2 Mbit/s of messages for most of its time, and keystrokes.
MESSAGES = (1400, 1200, 4800)
KEYS = (150, 20_000)


def figures(process, limit):
    """What a client measured; ends the one that takes too long."""
    out, _ = process.communicate(timeout=limit)
    if process.returncode != 0:
        raise Failure("a client failed")
    return json.loads(out)


def measure(case, network, setup, work):
    """Runs the programs of a case through a set-up; a row of figures."""
    target = setup.start(network, work)
    # Connections of the set-up settle, as in a tunnel or node that runs all day.
    time.sleep(1)
    return load(case, network, setup.kinds, target)


def load(case, network, kinds, target):
    """Runs the programs of a case; a row of figures."""
    address, ports = target
    meter = Meter(network)
    limit = () if case.seconds is None else (case.seconds,)
    process = client(network, "download", (address, ports["tcp"]), kinds["download"], case.size, *limit)
    beside = {}
    if case.messages:
        time.sleep(0.5)
        beside["messages"] = client(network, "messages", (address, ports["udp"]), kinds["messages"], *MESSAGES)
        keys = ports.get("keys", ports["tcp"])
        beside["keys"] = client(network, "keys", (address, keys), kinds["keys"], *KEYS)
    if case.outage:
        begin, end = case.outage
        time.sleep(begin)
        network.order("down path1")
        time.sleep(end - begin)
        network.order("up path1")
    row = figures(process, 180)
    row["capacity_mbps"] = meter.mean_mbps()
    if row["bytes"] < case.size and (case.seconds is None or row["elapsed_s"] < case.seconds):
        raise Failure(f"the download ended after {row['bytes']} of {case.size} bytes")
    total = row["bytes"]
    for name, process in beside.items():
        for key, value in figures(process, 60).items():
            row[f"{name}_{key}"] = value
    if "messages" in beside:
        # Of the messages, the share that fell into the download.
        total += min(MESSAGES[0] * MESSAGES[1], int(250_000 * (row["elapsed_s"] - 0.5)))
    row["goodput_fraction"] = total * 8 / row["elapsed_s"] / 1e6 / row["capacity_mbps"]
    return row
