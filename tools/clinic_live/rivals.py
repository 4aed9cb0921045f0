"""Rivals: the same contents over connections of the kernel's MPTCP, one for each stream; and the video over a group of SRT connections."""

import json
import pathlib
import subprocess
import sys
import time

from gateway_compare.network import Failure
from gateway_compare.setups import use_every_path

from . import figures

HERE = pathlib.Path(__file__).parent
PORT, SOURCE, SINK = 8200, 8301, 8302
# Of the 800 ms, what SRT waits for repetitions.
SRT_LATENCY_MS = 600
# Part by which SRT may exceed the rate of the video, repetitions included.
SRT_MARGIN = 1.25
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Peers:
    """A program at each end that sends and receives contents of the same sizes at the same times, and reports the ages."""

    can_restart = False

    def start(self, network, work, content, kind, target):
        plan = {"seconds": content.seconds, "pictures": content.pictures, "controller": getattr(self, "controller", None)}
        (work / "plan.json").write_text(json.dumps(plan))
        words = (sys.executable, str(HERE / "peer.py"))
        receiver = (*words, "receive", kind, str(self.listen_port), str(work / "plan.json"))
        self.receiver = network.far.start(*receiver, stdout=subprocess.PIPE, text=True)
        if self.receiver.stdout.readline() != "ready\n":
            raise Failure("the receiver does not start")
        sender = (*words, "send", kind, *target, str(work / "plan.json"))
        self.sender = network.near.start(*sender, stdout=subprocess.PIPE, text=True)
        self.content = content

    def end(self, _begin):
        try:
            self.sender.communicate(timeout=self.content.seconds + 120)
            out, _ = self.receiver.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            raise Failure("the programs do not end") from None
        ages = {stream: {int(number): age for number, age in of.items()} for stream, of in json.loads(out).items()}
        row = figures.video(self.content, ages["video"])
        if ages.get("speech"):
            row |= figures.speech(self.content, ages["speech"]) | figures.beats(self.content, ages["ekg"])
        return row, ages["video"]


class Mptcp(Peers):
    """A connection for each stream, all over every path."""

    listen_port = PORT

    def __init__(self, controller):
        self.name = f"mptcp-{controller}"
        self.controller = controller

    def begin(self, network, work, content):
        use_every_path(network, "subflow")
        self.start(network, work, content, "mptcp", (network.address, str(PORT)))


class Srt(Peers):
    """The video alone, over a group of connections, one from each interface."""

    listen_port = SINK

    def __init__(self, kind, program):
        self.name = f"srt-{kind}"
        self.kind = kind
        self.program = program

    def begin(self, network, work, content):
        listen = f"srt://:7000?groupconnect=1&latency={SRT_LATENCY_MS}"
        network.far.start(self.program, listen, f"udp://127.0.0.1:{SINK}", **QUIET)
        rate = int(content.video.stat().st_size / content.seconds * SRT_MARGIN)
        addresses = enumerate(network.far_addresses)
        nodes = ",".join(f"{address}:7000?weight={len(network.far_addresses) - index}" for index, address in addresses)
        group = f"srt:////group?type={self.kind}&nodes={nodes}&latency={SRT_LATENCY_MS}&maxbw={rate}"
        network.near.start(self.program, f"udp://:{SOURCE}", group, **QUIET)
        time.sleep(3)
        self.start(network, work, content, "udp", ("127.0.0.1", str(SOURCE)))
