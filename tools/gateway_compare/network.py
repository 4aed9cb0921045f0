"""Namespaces of a comparison: a client with an interface for each path, a server with one address, emulated links between them.

The client is the end with several uplinks. Traffic from each of its addresses leaves by the interface that has the address, as
with policy routing behind two modems; `mesh` gives the server one address a path, too, and every pair of addresses works. With
`behind`, a third namespace is a host behind the server, which forwards to it.
"""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import threading

SERVER = "10.96.0.1"
# Host behind the server, its network, and the server's address in it.
HOST, HOST_NETWORK, GATEWAY = "10.98.0.1", "10.98.0.0/24", "10.98.0.254"
# Largest buffers of TCP and UDP, in bytes, so that no set-up is held back by them.
BUFFER = 64 << 20
# Networks of this process, which may stand side by side.
NUMBERS = itertools.count(1)


class Failure(Exception):
    """Cause of a comparison that cannot go on, for the user."""


def run(*words):
    """Runs a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Space:
    """Network namespace, with the processes that were started in it."""

    def __init__(self, name):
        self.name = name
        self.processes = []
        run("ip", "netns", "add", name)
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise

    def prepare(self):
        self.run("ip", "link", "set", "lo", "up")
        self.set("net.ipv4.conf.all.rp_filter", "0")
        self.set("net.ipv4.conf.default.rp_filter", "0")
        self.set("net.ipv4.tcp_rmem", f"4096 131072 {BUFFER}")
        self.set("net.ipv4.tcp_wmem", f"4096 131072 {BUFFER}")
        # What one run learnt of a path must not help the next.
        self.set("net.ipv4.tcp_no_metrics_save", "1")

    def words(self, *words):
        return ("ip", "netns", "exec", self.name, *words)

    def run(self, *words):
        return run(*self.words(*words))

    def set(self, key, value):
        self.run("sysctl", "-qw", f"{key}={value}")

    def start(self, *words, **options):
        process = subprocess.Popen(self.words(*words), **options)
        self.processes.append(process)
        return process

    def pids(self):
        """Processes in the namespace, also those that others have started."""
        return subprocess.run(("ip", "netns", "pids", self.name), capture_output=True, text=True).stdout.split()

    def close(self):
        for process in self.processes:
            stop(process)
        # Of programs that start others, whoever is left.
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(("ip", "netns", "delete", self.name), capture_output=True)


def stop(process):
    """Ends a process, at first as Ctrl-C does."""
    if process.poll() is not None:
        return
    process.send_signal(2)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Network:
    """Two namespaces and the links between them; a context manager that takes everything down."""

    def __init__(self, binary, links, seed, mesh=False, behind=False):
        self.spaces = []
        self.turn = threading.Lock()
        self.name = f"anabgw-{os.getpid()}-{next(NUMBERS)}"
        try:
            self.build(binary, links, seed, mesh)
            # Where the programs' server runs, and its address.
            self.host, self.address = self.far, SERVER
            if behind:
                self.build_host()
        except BaseException:
            self.close()
            raise

    def build(self, binary, links, seed, mesh):
        self.mesh = mesh
        names = [f"{self.name}-{end}" for end in ("near", "far")]
        for name in names:
            self.spaces.append(Space(name))
        self.near, self.far = self.spaces
        words = [binary, "emulate", "--seed", str(seed)]
        self.near_addresses, self.far_addresses = [], []
        self.links = links
        for index, link in enumerate(links, 1):
            self.near_addresses.append(f"10.95.{index}.1")
            self.far_addresses.append(f"10.95.{index}.2")
            ends = f"{names[0]}:10.95.{index}.1/24,{names[1]}:10.95.{index}.2/24"
            words += ["--path", f"path{index}: {link}", "--tun", ends]
        pipe = subprocess.PIPE
        self.emulator = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        for _ in links:
            if not self.emulator.stdout.readline():
                raise Failure(f"the emulator does not start: {self.emulator.stderr.read().strip()}")
        self.far.run("ip", "address", "add", f"{SERVER}/32", "dev", "lo")
        for index, address in enumerate(self.near_addresses):
            device, table, via = f"anab{index}a", str(100 + index), self.far_addresses[index]
            self.near.run("ip", "route", "add", "default", "via", via, "dev", device, "table", table)
            if not mesh:
                self.near.run("ip", "rule", "add", "from", address, "lookup", table)
            self.near.run("ip", "route", "add", "default", "via", via, "dev", device, "metric", table)

    def build_host(self):
        """Puts a host behind the server."""
        self.host, self.address = Space(f"{self.name}-host"), HOST
        self.spaces.append(self.host)
        self.far.run("ip", "link", "add", "behind", "type", "veth", "peer", "name", "eth0", "netns", self.host.name)
        for space, device, address in ((self.far, "behind", GATEWAY), (self.host, "eth0", HOST)):
            space.run("ip", "address", "add", f"{address}/24", "dev", device)
            space.run("ip", "link", "set", device, "up")
        self.host.run("ip", "route", "add", "default", "via", GATEWAY)
        self.far.set("net.ipv4.ip_forward", "1")

    def order(self, text):
        """Sends a command to the emulator, such as `down path1`, and returns its answer."""
        with self.turn:
            self.emulator.stdin.write(text + "\n")
            return self.emulator.stdout.readline()

    def rate_mbps(self):
        """Present capacity of all links together in the direction to the near end."""
        rates = re.findall(r"([0-9.]+) ([kMG]?)bit/s backward", self.order("rates"))
        units = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}
        return sum(float(number) * units[unit] for number, unit in rates)

    def close(self):
        emulator = getattr(self, "emulator", None)
        if emulator:
            stop(emulator)
        for space in self.spaces:
            space.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
