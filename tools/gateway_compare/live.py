"""Case `rtp`: live media of 6 Mbit/s over three recorded cellular links, whose mean rates sum up to 7.5 Mbit/s.

The media leave by the three uplinks. A datagram is in time if it is 300 ms old at most when the receiver has it. The media are
RTP through a forward; if libsrt's program srt-test-live, built with bonding, is named, also SRT through a forward, beside SRT's own
broadcast and backup groups.
"""

import csv
import json
import statistics
import subprocess
import time

from .network import Failure
from .setups import HERE, client, start_client

# Datagrams a run, their size with RTP's header, and their interval: 6 Mbit/s for a minute.
COUNT, SIZE, INTERVAL_US = 34_200, 1316, 1_754
LOAD = 0.8
DELAYS_MS = (25, 35, 45)
TRACES = ("2767958-taxi1", "2925703-home1", "3199718-timessquare")
SINK = 8100
SOURCE = 8101
# Of the 300 ms, what SRT waits for repetitions: the delay of its handshake is added to it. Of 160, 200 and 240 ms, the best on run 1.
GROUP_LATENCY_MS = 240
FORWARD_LATENCY_MS = 200
# Packets by which one may be overtaken before it is asked for again.
REORDERED = 200
# Bytes per second that SRT may send, repetitions included: 5 % more than the media with SRT's headers. Without a limit its
# repetitions fill the paths.
SRT_BYTES_PER_S = 820_000


def links(data, run):
    """Links of a run, each at another part of its trace; None if the recordings are not at hand."""
    texts = []
    for trace, delay in zip(TRACES, DELAYS_MS):
        path = data / "paths" / "nyc_cellular" / f"{trace}.csv"
        if not path.exists():
            return None
        with path.open() as file:
            rows = [row for row in csv.reader(file)][1:]
        mean_mbps = statistics.fmean(float(row[1]) for row in rows) / 1e6
        scale = SIZE * 8 / INTERVAL_US / LOAD / len(TRACES) / mean_mbps
        rate = f'rate=trace "{path}" x{scale:.4f} from {20 * (run - 1)} s'
        texts.append(f"{rate}, delay={delay} ms, queue=250 ms ; rate=20 Mbit/s, delay={delay} ms, queue=100 ms")
    return texts


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class SrtForward:
    """One SRT connection, through a forward."""

    name = "anabranch-srt"

    def __init__(self, gateway, program):
        self.gateway = gateway
        self.program = program

    def start_live(self, network, work):
        address, port = self.gateway.start_srt(network, work)
        # Packets that took different paths are not lost when they come in another order.
        listen = f"srt://:7000?latency={FORWARD_LATENCY_MS}&lossmaxttl={REORDERED}"
        network.far.start(self.program, listen, f"udp://127.0.0.1:{SINK}", **QUIET)
        caller = f"srt://{address}:{port}?latency={FORWARD_LATENCY_MS}&maxbw={SRT_BYTES_PER_S}"
        network.near.start(self.program, f"udp://:{SOURCE}", caller, **QUIET)
        time.sleep(3)
        return "127.0.0.1", SOURCE


class Srt:
    """Group of SRT connections, one from each interface."""

    def __init__(self, kind, program):
        self.name = f"srt-{kind}"
        self.kind = kind
        self.program = program

    def start_live(self, network, _work):
        listen = f"srt://:7000?groupconnect=1&latency={GROUP_LATENCY_MS}"
        network.far.start(self.program, listen, f"udp://127.0.0.1:{SINK}", **QUIET)
        # Each of the server's addresses is reached over a link of its own.
        addresses = enumerate(network.far_addresses)
        nodes = ",".join(f"{address}:7000?weight={len(TRACES) - index}" for index, address in addresses)
        group = f"srt:////group?type={self.kind}&nodes={nodes}&latency={GROUP_LATENCY_MS}"
        network.near.start(self.program, f"udp://:{SOURCE}", group, **QUIET)
        time.sleep(3)
        return "127.0.0.1", SOURCE


def measure(network, setup, work):
    """Sends media through a set-up; a row of figures."""
    target = setup.start_live(network, work)
    sink = start_client(network.far, "sink", ("0.0.0.0", SINK), "udp", COUNT)
    time.sleep(0.5)
    source = client(network, "media", target, "udp", COUNT, SIZE, INTERVAL_US)
    row = {}
    for process in (source, sink):
        out, _ = process.communicate(timeout=180)
        if process.returncode != 0:
            raise Failure("a client failed")
        row |= json.loads(out)
    row["in_time_fraction"] = (row["ages_ms_count"] - row["ages_ms_late_300"]) / COUNT
    row["lost_fraction"] = 1 - row["ages_ms_count"] / COUNT
    return row
