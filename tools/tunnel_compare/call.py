"""Cases `call` and `call-uncut`: a video call of two browsers beside a download, over recorded cellular paths of which one is cut.

One browser runs at the near end, the other on the host behind the far end. Both send a real clip and sound. What counts is when the
receiver shows frames; the browsers tell that themselves.
"""

import json
import math
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from subprocess import DEVNULL

from gateway_compare.network import HOST_NETWORK, Failure
from gateway_compare.setups import PORT, client

HERE = pathlib.Path(__file__).parent
# Recorded with the downlink and the uplink of each at once, in another place each; with the delay of each path one way, in ms.
TRACES = (("TMobile-LTE-short", 25), ("Verizon-LTE-short", 35), ("ATT-LTE-driving", 45))
MAILBOX = 8200
# Time for which the call runs before anything is measured, so that its rate has grown; time from the beginning of the download on, of
# which the path is cut from one to the other, all in seconds.
WARM_S, MEASURED_S, CUT_S = 8, 44, (20, 28)
# Time after the return of the path in which a freeze is still ascribed to it.
AFTER_S = 4
FREEZE_MS = 300
SIZE = 1 << 40
CLIP = ("-vf", "scale=-2:360,crop=640:360", "-pix_fmt", "yuv420p")


class Call:
    """The call, with a cut or without."""

    def __init__(self, name, data, is_cut):
        self.name = name
        self.data = data
        self.is_cut = is_cut

    def lacks(self):
        """What is missing to run it, or None."""
        missing = [program for program in ("chromium", "ffmpeg") if not shutil.which(program)]
        if missing:
            return f"there is no program {', '.join(missing)}"
        return None if self.folder().is_dir() else f"there are no recorded paths in {self.folder()} (--data names their folder)"

    @staticmethod
    def fits(setup):
        """Of the tunnels, those that carry packets and need not be told rates, which change here."""
        return setup.is_plain or bool(setup.inner and not setup.wants_rates)

    def folder(self):
        return self.data / "paths" / "mahimahi"

    def links_of(self, run):
        """Links of a run, each at another part of its recording."""
        texts = []
        for trace, delay in TRACES:
            ways = (f'rate=trace "{self.folder() / trace}-{way}.csv" from {20 * (run - 1)} s' for way in ("up", "down"))
            texts.append(" ; ".join(f"{way}, delay={delay} ms, queue=250 ms" for way in ways))
        return texts


class Browser:
    """Browser in a namespace, with one end of the call."""

    def __init__(self, side, space, work, letters, clip):
        self.side, self.letters = side, letters
        mailbox = (sys.executable, str(HERE / "mailbox.py"), str(HERE / "call.html"), str(letters), str(MAILBOX))
        space.start(*mailbox)
        with (work / f"{side}.browser.log").open("w") as log:
            space.start(
                "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                # Frames are shown as on a visible screen.
                "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--autoplay-policy=no-user-gesture-required", "--mute-audio",
                "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", f"--use-file-for-fake-video-capture={clip}",
                # Candidates have their addresses: nobody resolves names here.
                "--disable-features=WebRtcHideLocalIpsWithMdns",
                f"--user-data-dir={work / side}.profile", f"http://127.0.0.1:{MAILBOX}/?side={side}",
                stdout=log, stderr=log,
            )  # fmt: skip

    def letter(self, name, limit_s):
        """A letter that the browser leaves."""
        end = time.monotonic() + limit_s
        path, error = self.letters / f"{self.side}.{name}", self.letters / f"{self.side}.error"
        while not path.exists():
            if error.exists():
                raise Failure(f"the browser at the {self.side} end: {error.read_text()}")
            if time.monotonic() > end:
                raise Failure(f"the browser at the {self.side} end: no letter {name!r} within {limit_s} s")
            time.sleep(0.05)
        return path.read_text()


def confine(network, setup):
    """Lets programs of the near end reach the host by the set-up alone: browsers try every interface."""
    for index, address in enumerate(network.near_addresses):
        if setup.inner or index > 0:
            network.near.run("ip", "rule", "add", "from", address, "to", HOST_NETWORK, "prohibit", "priority", "10")


def measure(case, network, setup, work):
    """Runs the call; a row of figures."""
    confine(network, setup)
    letters, clip = work / "letters", work / "clip.y4m"
    letters.mkdir()
    words = ("ffmpeg", "-loglevel", "error", "-i", str(HERE.parent.parent / "data" / "bikes.mp4"), *CLIP, str(clip))
    if (done := subprocess.run(words, stdin=DEVNULL, capture_output=True, text=True)).returncode != 0:
        raise Failure(f"ffmpeg: {done.stderr.strip()}")
    ends = {"near": network.near, "host": network.host}
    browsers = [Browser(side, space, work, letters, clip) for side, space in ends.items()]
    for browser in browsers:
        browser.letter("shows", 60)
    time.sleep(WARM_S)
    begin = time.time()
    download = client(network, "download", (network.address, PORT), "tcp", SIZE, MEASURED_S)
    if case.is_cut:
        for at, order in zip(CUT_S, ("down", "up")):
            time.sleep(begin + at - time.time())
            network.order(f"{order} path1")
    out, _ = download.communicate(timeout=MEASURED_S + 60)
    if download.returncode != 0:
        raise Failure("the download failed")
    (letters / "stop").touch()
    row = json.loads(out)
    row["download_mbps"] = row["bytes"] * 8 / row["elapsed_s"] / 1e6
    results = {browser.side: json.loads(browser.letter("result", 30)) for browser in browsers}
    for way, receiver, sender in (("down", "near", "host"), ("up", "host", "near")):
        for name, value in figures(results[receiver], results[sender], begin).items():
            row[f"{way}_{name}"] = value
    return row


def quantile(values, p):
    """Smallest value that at least the share `p` does not exceed."""
    values = sorted(values)
    return values[max(0, math.ceil(len(values) * p) - 1)]


def gaps(frames, begin, first_s, last_s):
    """Times between frames that are shown one after the other, of those that end in a part of the measured time, in ms."""
    low, high = (begin + first_s) * 1000, (begin + last_s) * 1000
    times = [frame["at"] for frame in frames]
    # A freeze that lasts until the end counts, too.
    return [min(b, high) - a for a, b in zip(times, times[1:] + [high]) if b > low and a < high] or [high - low]


def figures(received, sent, begin):
    """Figures of one direction: what its receiver showed, and what the statistics of both ends tell of it."""
    frames = received["frames"]
    all_gaps = gaps(frames, begin, 0, MEASURED_S)
    at_cut = gaps(frames, begin, CUT_S[0], CUT_S[1] + AFTER_S)
    inside = [frame for frame in frames if begin <= frame["at"] / 1000 <= begin + MEASURED_S]
    row = {
        "gap_ms": max(all_gaps),
        "gap_at_cut_ms": max(at_cut),
        "freezes_300": float(sum(gap > FREEZE_MS for gap in all_gaps)),
        "frames_per_s": len(inside) / MEASURED_S,
        "height_p50": float(statistics.median(frame["height"] for frame in inside)) if inside else 0.0,
    }
    samples = [sample for sample in received["samples"] if begin <= sample["at"] / 1000 <= begin + MEASURED_S]
    first, last = (samples[index]["inbound-rtp video"] for index in (0, -1))

    def grown(name):
        return last.get(name, 0) - first.get(name, 0)

    seconds = (samples[-1]["at"] - samples[0]["at"]) / 1000
    row["video_kbps"] = grown("bytesReceived") * 8 / seconds / 1000
    row["browser_freezes"] = float(grown("freezeCount"))
    row["browser_freezes_s"] = float(grown("totalFreezesDuration"))
    row["jitter_buffer_ms"] = grown("jitterBufferDelay") * 1000 / max(1, grown("jitterBufferEmittedCount"))
    row["packets_lost"] = float(grown("packetsLost"))
    row["key_frames_asked"] = float(grown("pliCount"))
    sound = [samples[index]["inbound-rtp audio"] for index in (0, -1)]
    concealed, heard = (sound[1][name] - sound[0][name] for name in ("concealedSamples", "totalSamplesReceived"))
    row["sound_concealed_fraction"] = concealed / max(1, heard)
    # Each measurement once.
    trips = {}
    for sample in sent["samples"]:
        report = sample.get("remote-inbound-rtp video", {})
        if begin <= sample["at"] / 1000 <= begin + MEASURED_S and "roundTripTime" in report:
            trips[report["roundTripTimeMeasurements"]] = report["roundTripTime"] * 1000
    if trips:
        row["round_trip_ms_p50"], row["round_trip_ms_p99"] = quantile(trips.values(), 0.5), quantile(trips.values(), 0.99)
    return row
