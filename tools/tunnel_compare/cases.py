"""Cases of the comparison of tunnels: those of `gateway-compare`, a QUIC download, and a call; what each costs both sides."""

import copy
import os
import subprocess
import time
from subprocess import DEVNULL

from gateway_compare.cases import CASES as GATEWAY_CASES
from gateway_compare.cases import Meter, figures, load
from gateway_compare.network import Failure

from . import call

# Bytes on their way that QUIC's windows allow, so that they hold no tunnel back.
QUIC_WINDOW = 16 << 20
# They take a minute for each set-up, and browsers.
CALLS = ("call", "call-uncut")


def cases(seconds, data):
    """Cases by name; downloads end after so many seconds, so that a tunnel that stands still holds nobody up. `data` has recorded paths."""
    known = {}
    for case in GATEWAY_CASES:
        case = copy.copy(case)
        case.name, case.seconds = case.name.lower(), seconds
        known[case.name] = case
    quic = copy.copy(known["b"])
    quic.name, quic.size = "b-quic", 120_000_000
    order = ("b", "c", "three", "b-quic", "e", "f")
    known = {name: quic if name == "b-quic" else known[name] for name in order}
    return known | {name: call.Call(name, data, name == "call") for name in CALLS}


def fits(case, setup):
    """Whether a case can be run through a set-up."""
    if case.name in CALLS:
        return case.fits(setup)
    # QUIC needs a way for packets from the host to the near end.
    return not setup.is_plain and (case.name != "b-quic" or bool(setup.inner))


def cpu_s(pid):
    """CPU time of a process and of those that it started, in seconds."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            # Behind the name, which ends with the last parenthesis.
            fields = file.read().rpartition(")")[2].split()
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except FileNotFoundError:
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_s(child) for child in children)


def measure(case, network, setup, work, bulk):
    """Runs the programs of a case through a tunnel; a row of figures."""
    target = setup.start(network, work)
    # Paths open and are probed, as in a tunnel that runs all day.
    time.sleep(setup.settling_s)

    def costs():
        return {side: sum(cpu_s(process.pid) for process in setup.processes[side]) for side in setup.processes}

    before = costs()
    if case.name == "b-quic":
        row = quic(network, setup.inner, work, bulk, case)
    elif case.name in CALLS:
        row = call.measure(case, network, setup, work)
    else:
        row = load(case, network, setup.kinds, target)
    for side, after in costs().items():
        row[f"cpu_{side}_s_per_gb"] = (after - before[side]) / (row["bytes"] / 1e9)
    for process in (process for side in setup.processes.values() for process in side):
        if process.poll() is not None:
            raise Failure(f"a process of the tunnel ended with {process.returncode}")
    return row


def quic(network, address, work, bulk, case):
    """One QUIC stream from the host to the near end's address in the tunnel, as the near end sees it."""
    file = work / "quic"
    receive = ("noq", "receive", f"{address}:4434", str(file), str(QUIC_WINDOW), str(case.seconds))
    receiver = network.near.start(bulk, *receive, stdout=subprocess.PIPE, text=True)
    for _ in range(100):
        if file.exists():
            break
        time.sleep(0.05)
    meter = Meter(network)
    # If time is up, it complains that its connection was lost.
    network.host.start(bulk, "noq", "send", "0.0.0.0:0", str(file), str(case.size), stdout=DEVNULL, stderr=DEVNULL)
    try:
        row = figures(receiver, case.seconds + 30)
    except subprocess.TimeoutExpired:
        raise Failure("the QUIC connection does not open") from None
    row["capacity_mbps"] = meter.mean_mbps()
    row["goodput_fraction"] = row["bytes"] * 8 / row["elapsed_s"] / 1e6 / row["capacity_mbps"]
    return {name: row[name] for name in ("bytes", "elapsed_s", "capacity_mbps", "goodput_fraction")}
