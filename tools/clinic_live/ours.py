"""The programs of this repository: `anabranch clinic hospital` and `anabranch clinic ambulance`, and what the hospital kept."""

import csv
import os
import pathlib
import signal
import subprocess
import time

from gateway_compare.network import SERVER, Failure

from . import figures
from .content import read_samples
from .content_times import FPS

PORT = 4433
# Seconds after the end of the contents in which the ambulance has to end.
PATIENCE_S = 60
OBJECTIVES = pathlib.Path(__file__).resolve().parent.parent.parent / "apps" / "clinic" / "src" / "objectives.hose"


class Clinic:
    """Ambulance and hospital under a policy of the ambulance."""

    can_restart = True

    def __init__(self, binary, policy):
        self.binary = binary
        self.name = policy
        self.policy = ["--policy", policy]
        if policy == "assign":
            self.policy += ["--objectives", str(OBJECTIVES)]

    def begin(self, network, work, content):
        """Starts both programs; the time of the first picture is about now."""
        self.network, self.work, self.content = network, work, content
        self.store = work / "store"
        self.serve()
        binds = [word for address in network.near_addresses for word in ("--bind", f"{address}:0")]
        words = ["clinic", "ambulance", "--ticket-file", str(work / "ticket"), "--key", str(work / "ambulance.key"), "--consent", "yes"]
        words += ["--ekg", str(content.record), "--video", str(content.video), "--fps", str(FPS), "--audio", str(content.speech)]
        words += ["--json", *self.policy, *binds]
        self.ambulance = network.near.start(self.binary, *words, stdout=self.log("ambulance"), stderr=subprocess.STDOUT)

    def serve(self):
        words = ["clinic", "hospital", "--quiet", "--store", str(self.store), "--key", str(self.work / "hospital.key"), "--listen", f"{SERVER}:{PORT}"]
        words = [self.binary, *words]
        self.hospital = self.network.far.start(*words, stdout=subprocess.PIPE, stderr=self.log("hospital"), text=True)
        ticket = self.hospital.stdout.readline()
        if not ticket.startswith("anabranch1:"):
            raise Failure(f"the hospital does not start: {(self.work / 'hospital.log').read_text().strip()}")
        (self.work / "ticket").write_text(ticket)

    def log(self, name):
        return (self.work / f"{name}.log").open("a")

    def kill(self):
        """Kills the hospital, and starts it again at once; the seconds from the start until its record grows again."""
        record = next(self.store.glob("*/ekg.dat"))
        self.hospital.send_signal(signal.SIGKILL)
        self.hospital.wait()
        size = record.stat().st_size
        begin = time.monotonic()
        self.serve()
        while record.stat().st_size <= size:
            if time.monotonic() - begin > 30:
                raise Failure("the record does not go on after the restart")
            time.sleep(0.01)
        return time.monotonic() - begin

    def end(self, begin):
        """Waits for the end; a row of figures and the ages of pictures."""
        code, cpu_s = wait(self.ambulance, self.content.seconds + PATIENCE_S - (time.monotonic() - begin))
        if code not in (0, 7):
            raise Failure(f"the ambulance ended with {code}: {(self.work / 'ambulance.log').read_text()[-2000:]}")
        cpu = {"ambulance_cpu": cpu_s / (time.monotonic() - begin)}
        time.sleep(0.5)
        case = next(self.store.glob("*-*"))
        pictures = ages(case / "video.csv", "picture")
        packets = ages(case / "speech.csv", "packet")
        row = cpu | figures.video(self.content, pictures) | figures.speech(self.content, packets)
        return row | figures.record(self.content, read_samples(case / "ekg.dat")), pictures


def wait(process, seconds):
    """Waits for the end of a process; its code, or `None` if it does not end in time, and the CPU time in s that it took."""
    until = time.monotonic() + seconds
    # It can be asked what it took until it has been reaped.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            return None, None
        time.sleep(0.05)
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    user, system = map(int, fields[11:13])
    return process.wait(), (user + system) / os.sysconf("SC_CLK_TCK")


def ages(path, column):
    """The age in ms of all that came, by number. Half a round trip is its largest error."""
    with path.open() as lines:
        rows = csv.DictReader(lines)
        return {int(row[column]): float(row["age_ms"]) for row in rows if row["age_ms"]}
