"""Set-ups of a comparison: how a program at the near end reaches the server through all paths."""

import json
import os
import pathlib
import subprocess
import sys
import time

from .network import SERVER, Failure

HERE = pathlib.Path(__file__).parent
PORT = 8000


def use_every_path(network, way):
    """Gives the kernel's MPTCP connections a subflow for each path: opened by the near end (`subflow`), or by the far end, to which
    the near end then announces its addresses (`signal`).
    """
    for space in network.spaces:
        space.run("ip", "mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "8")
    for index, address in enumerate(network.near_addresses[1:], 1):
        network.near.run("ip", "mptcp", "endpoint", "add", address, "dev", f"anab{index}a", way)


class Mptcp:
    """Programs with MPTCP sockets, whose kernel uses every interface, under a congestion controller."""

    kinds = {"download": "mptcp", "messages": "mptcp", "keys": "mptcp"}

    def __init__(self, controller):
        self.name = f"mptcp-{controller}"
        self.controller = controller

    def start(self, network, _work):
        use_every_path(network, "subflow")
        start_server(network, "mptcp", self.controller)
        return network.address, {"tcp": PORT, "udp": PORT}


class Gateway:
    """Unchanged programs, whose connections a node forwards to the node beside the server."""

    name = "anabranch"
    kinds = {"download": "tcp", "messages": "udp", "keys": "tcp"}

    def __init__(self, binary):
        self.binary = binary

    def start(self, network, work):
        start_server(network)
        ids = {}
        for end in ("near", "far"):
            ids[end] = keygen(self.binary, work / f"{end}.key")
        listen = [f"{address}:4433" for address in network.far_addresses] if network.mesh else [f"{SERVER}:4433"]
        rights = f'["call", {{ right = "forward", to = ["{SERVER}:*", "udp:{SERVER}:*"] }}]'
        far = f'''
listen = {json.dumps(listen)}
[[peer]]
name = "near"
node = "{ids["near"]}"
may = {rights}
'''
        forwards = "".join(
            f'''
[[forward]]
local = "127.0.0.1:{port}"
peer = "far"
to = "{SERVER}:{to}"
protocol = "{protocol}"
service = {{ {service} }}
'''
            for port, to, protocol, service in (
                (8080, PORT, "tcp", ""),
                (8081, PORT, "tcp", 'profile = "interactive"'),
                (8082, PORT, "udp", 'profile = "live"'),
                (8083, 8100, "udp", 'profile = "live", lifetime = "300 ms"'),
                (8084, 7000, "udp", 'profile = "live", lifetime = "300 ms"'),
            )
        )
        near = f'''
interfaces = {json.dumps([f"anab{index}a" for index in range(len(network.near_addresses))])}
[[peer]]
name = "far"
node = "{ids["far"]}"
may = []
addresses = {json.dumps(listen)}
{forwards}'''
        for end, text, space in (("far", far, network.far), ("near", near, network.near)):
            head = f'key = "{work / end}.key"\ncontrol = "{work / end}.sock"\nlocal = ""\n'
            (work / f"{end}.toml").write_text(head + text)
            log = open(work / f"{end}.log", "w")
            space.start(self.binary, "node", "--config", str(work / f"{end}.toml"), stdout=log, stderr=log)
        self.wait(network, work)
        return "127.0.0.1", {"tcp": 8080, "keys": 8081, "udp": 8082}

    def start_live(self, network, work):
        address, _ = self.start(network, work)
        return address, 8083

    def start_srt(self, network, work):
        address, _ = self.start(network, work)
        return address, 8084

    def wait(self, network, work):
        """Waits until every path is open."""
        count = len(network.near_addresses) ** (2 if network.mesh else 1)
        for _ in range(150):
            time.sleep(0.1)
            words = (self.binary, "paths", "--json", "--control", str(work / "near.sock"))
            done = subprocess.run(words, capture_output=True, text=True)
            rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
            if sum(row["state"] == "active" for row in rows) >= count:
                return
        logs = "\n".join((work / f"{end}.log").read_text()[-2000:] for end in ("near", "far"))
        raise Failure(f"the paths do not open: {done.stdout} {done.stderr}\n{logs}")


def keygen(binary, path):
    """Makes a key; the ID of its node."""
    done = subprocess.run((binary, "keygen", "--key", str(path)), capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"keygen: {done.stderr.strip()}")
    return next(word for word in done.stdout.split() if len(word) == 52)


def start_server(network, *kind):
    words = (sys.executable, str(HERE / "server.py"), "0.0.0.0", str(PORT), *kind)
    server = network.host.start(*words, stdout=subprocess.PIPE, text=True)
    if server.stdout.readline() != "ready\n":
        raise Failure("the server does not start")


def start_client(space, role, target, kind, *numbers, **options):
    """Starts a client in a namespace; its standard output is what it measured."""
    address, port = target
    words = (sys.executable, str(HERE / "client.py"), role, address, str(port), kind, *map(str, numbers))
    return space.start(*words, stdout=subprocess.PIPE, text=True, **options)


def client(network, role, target, kind, *numbers):
    """Starts a client at the near end."""
    return start_client(network.near, role, target, kind, *numbers)
