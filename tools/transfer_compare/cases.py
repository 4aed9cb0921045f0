"""Cases of the comparison: networks, what is sent, and the figures of a transfer."""

import contextlib
import dataclasses
import os
import pathlib
import random
import resource
import subprocess
import threading
import time

from gateway_compare.cases import PAIR_B
from gateway_compare.network import Failure, Network, Space

from .tools import LONGEST_S

NEAR, FAR = "10.97.0.1", "10.97.0.2"
BLOCK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Case:
    """Files that are sent, all of one size, and the network: `veth`, `lo`, or emulated links; `outage` is one of the first link, from and
    to, in seconds. Of a single file the time until it is visible counts if `is_first`.
    """

    name: str
    size: int
    files: int = 1
    network: object = "veth"
    outage: tuple = None
    is_first: bool = False


CASES = {
    case.name: case
    for case in (
        Case("first-veth", 1_000, is_first=True),
        Case("first-b", 1_000, network=PAIR_B, is_first=True),
        Case("gigabyte-veth", 1_000_000_000),
        Case("gigabyte-lo", 1_000_000_000, network="lo"),
        Case("files-veth", 2_000, files=5_000),
        Case("files-b", 2_000, files=5_000, network=PAIR_B),
        Case("b", 250_000_000, network=PAIR_B),
        Case("e", 250_000_000, network=PAIR_B, outage=(4, 9)),
    )
}


def plant(case, folder):
    """Writes what is sent, once; random bytes, which no tool can compress."""
    source = folder / f"source-{case.files}-{case.size}"
    if source.exists():
        return source
    made = folder / "made"
    generator = random.Random(case.size)
    if case.files == 1:
        with made.open("wb") as file:
            for at in range(0, case.size, BLOCK):
                file.write(generator.randbytes(min(BLOCK, case.size - at)))
    else:
        for index in range(case.files):
            inner = made / f"folder-{index // 500}"
            inner.mkdir(parents=True, exist_ok=True)
            (inner / f"file-{index}").write_bytes(generator.randbytes(case.size))
    made.rename(source)
    return source


class Ends:
    """Both ends of a transfer: namespaces, and an address at each, those of the best path."""

    def __init__(self, near, far, near_address, address, order=None):
        self.near, self.far = near, far
        self.near_address, self.address = near_address, address
        self.order = order


@contextlib.contextmanager
def ends_of(case, binary, seed):
    """The network of a case, until the end of the context."""
    if isinstance(case.network, list):
        with Network(binary, case.network, seed) as network:
            yield Ends(network.near, network.far, network.near_addresses[0], network.far_addresses[0], network.order)
        return
    with contextlib.ExitStack() as stack:
        spaces = []
        for end in ("near", "far")[: 1 if case.network == "lo" else 2]:
            spaces.append(Space(f"anabtc-{os.getpid()}-{end}"))
            stack.callback(spaces[-1].close)
        near, far = spaces[0], spaces[-1]
        if case.network == "lo":
            yield Ends(near, far, "127.0.0.1", "127.0.0.1")
            return
        near.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", far.name)
        for space, address in ((near, NEAR), (far, FAR)):
            space.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
            space.run("ip", "link", "set", "eth0", "up")
        yield Ends(near, far, NEAR, FAR)


def arrived(into):
    """Files that are below a folder under their final names, and their bytes."""
    files = [pathlib.Path(at, name) for at, _, names in os.walk(into) if "/." not in at for name in names if not name.startswith(".")]
    return len(files), sum(path.stat().st_size for path in files)


def until_visible(case, into, processes):
    """Waits for the only file, complete and under its final name."""
    end = time.monotonic() + 60
    while True:
        with contextlib.suppress(FileNotFoundError):
            if arrived(into) == (1, case.size):
                return
        failed = any(process.poll() not in (None, 0) for process in processes)
        if failed or time.monotonic() > end:
            raise Failure("nothing arrives")
        time.sleep(0.001)


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cut(ends, outage):
    """Takes the first link down and up again."""
    begin, end = outage
    time.sleep(begin)
    ends.order("down path1")
    time.sleep(end - begin)
    ends.order("up path1")


def measure(case, tool, binary, seed, source, folder):
    """One transfer by a tool; a row of figures."""
    into, work = folder / "into", folder / "work"
    into.mkdir()
    work.mkdir()
    # What earlier runs left for the disk is not this one's.
    os.sync()
    load, before = os.getloadavg()[0], cpu_s()
    with ends_of(case, binary, seed) as ends:
        try:
            tool.prepare(ends, into, work)
            outage = case.outage and threading.Thread(target=cut, args=(ends, case.outage), daemon=True)
            start = time.monotonic()
            if outage:
                outage.start()
            ending = tool.send(source)
            if case.is_first:
                until_visible(case, into, ending)
                visible_s = time.monotonic() - start
            for process in ending:
                if process.wait(LONGEST_S):
                    raise Failure(f"{tool.name} failed: {tool.logs()}")
            elapsed_s = time.monotonic() - start
            subprocess.run(("sync", "-f", into), check=True)
            durable_s = time.monotonic() - start
            if outage:
                outage.join()
        except subprocess.TimeoutExpired:
            raise Failure(f"{tool.name} is not done in {LONGEST_S} s: {tool.logs()}") from None
        finally:
            tool.stop()
        used = cpu_s() - before
    if arrived(into) != (case.files, case.files * case.size):
        raise Failure(f"{tool.name}: {arrived(into)} of {case.files} files arrived: {tool.logs()}")
    row = {"visible_s": visible_s} if case.is_first else {"elapsed_s": elapsed_s, "durable_s": durable_s}
    return row | {"cpu_s": used, "load": load}
