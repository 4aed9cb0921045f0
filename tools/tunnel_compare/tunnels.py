"""Tunnels of the comparison: each joins the near end to the network behind the far end, over all paths.

A rival runs with the settings that its documentation proposes; where it wants the rates of the paths, it is told them.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import time

from gateway_compare.network import HOST, HOST_NETWORK, SERVER, Failure
from gateway_compare.setups import PORT, Mptcp, keygen, start_client, start_server

FAR_INNER, NEAR_INNER, INNER_NETWORK = "10.99.0.1", "10.99.0.2", "10.99.0.0/24"
# Depth to which programs are sought in the folder of the rivals.
DEPTH = 4


class Programs:
    """Programs of the rivals, in a folder where they were built, or on PATH."""

    def __init__(self, folder):
        self.folder = folder

    @functools.cache
    def find(self, name):
        """Path of a program, or None."""
        return self.find_in_folder(name) or shutil.which(name)

    def find_in_folder(self, name):
        """Path of a program in the folder, the one nearest to its top, or None."""
        if self.folder:
            found = []
            for path, folders, files in os.walk(self.folder):
                depth = len(pathlib.Path(path).relative_to(self.folder).parts)
                if depth >= DEPTH:
                    folders.clear()
                file = os.path.join(path, name)
                if name in files and os.access(file, os.X_OK):
                    found.append((depth, file))
            if found:
                return min(found)[1]
        return None


def run_outside(*words):
    """Runs a program in no namespace; what it prints."""
    done = subprocess.run(words, capture_output=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr.decode().strip()}")
    return done.stdout


class Plain:
    """The kernel alone, on the first path."""

    name = "kernel-path1"
    kinds = {"download": "tcp", "messages": "udp", "keys": "tcp"}
    inner = None
    is_plain = True
    processes = {}
    settling_s = 1

    def lacks(self):
        return None

    def start(self, network, _work):
        start_server(network, "tcp", "cubic")
        return network.address, {"tcp": PORT, "udp": PORT}


class Kernel(Mptcp):
    """MPTCP of the kernel, end to end; no tunnel."""

    inner = None
    is_plain = False
    processes = {}
    settling_s = 1

    def lacks(self):
        return None if pathlib.Path("/proc/sys/net/mptcp/enabled").exists() else "the kernel has no MPTCP"


class Tunnel:
    """Tunnel whose programs run at the near and far end."""

    kinds = {"download": "tcp", "messages": "udp", "keys": "tcp"}
    # Address of the near end in the tunnel, to which the host can open connections.
    inner = NEAR_INNER
    # The kernel alone, on one path.
    is_plain = False
    # The rates of the paths belong to its configuration.
    wants_rates = False
    programs = ()
    settling_s = 3

    def __init__(self, name, tools):
        self.name = name
        self.tools = tools
        self.processes = {"near": [], "far": []}

    def lacks(self):
        """What is missing to run it, or None."""
        missing = [name for name in self.programs if not self.tools.find(name)]
        place = f"in {self.tools.folder} or on PATH" if self.tools.folder else "on PATH (--rivals names a folder)"
        return f"no {', '.join(missing)} {place}" if missing else None

    def start(self, network, work):
        """Starts the tunnel; where programs reach the server through it."""
        self.network, self.work = network, work
        # By name: of some systems, cubic is not the default.
        start_server(network, "tcp", "cubic")
        target = self.join() or (HOST, {"tcp": PORT, "udp": PORT})
        self.wait(target)
        return target

    def run(self, side, *words, **options):
        """Starts a program of the tunnel at an end; its output goes to a log."""
        space = getattr(self.network, side)
        log = self.log(side, len(self.processes[side]))
        with log.open("w") as file:
            process = space.start(*map(str, words), **({"stdout": file, "stderr": file} | options))
        self.processes[side].append(process)
        return process

    def log(self, side, index=0):
        return self.work / f"{side}{index}.log"

    def device(self, side):
        """Name of a device; unlike in any other run, because some programs keep sockets under it."""
        return f"tc{os.getpid()}{side[0]}"

    def until(self, what, is_so, limit_s=20):
        """Waits until something is so, while the processes run."""
        end = time.monotonic() + limit_s
        while not (value := is_so()):
            ended = any(process.poll() is not None for side in self.processes.values() for process in side)
            if ended or time.monotonic() > end:
                raise Failure(f"{what}: {'a program ended' if ended else 'never'}\n{self.logs()}")
            time.sleep(0.1)
        return value

    def logs(self):
        """Ends of the logs."""
        texts = []
        for path in sorted(self.work.glob("*.log")):
            text = re.sub(r"\x1b\[[0-9;]*m", "", path.read_text(errors="replace"))
            texts.append(f"{path.name}: {text[-600:].strip()}")
        return "\n".join(texts)

    def wait(self, target):
        """Waits until the server answers through the tunnel."""
        address, ports = target

        def answers():
            process = start_client(self.network.near, "keys", (address, ports["tcp"]), "tcp", 1, 0, stderr=subprocess.DEVNULL)
            try:
                out, _ = process.communicate(timeout=3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return False
            return process.returncode == 0 and "p50" in out

        self.until("the server answers through the tunnel", answers, 30)

    def has(self, side, device):
        space = getattr(self.network, side)
        words = space.words("ip", "link", "show", "dev", device)
        return subprocess.run(words, capture_output=True).returncode == 0

    def address(self, side, mtu=None):
        """Gives the tunnel's device its address, and at the near end the route to the host."""
        device, space = self.device(side), getattr(self.network, side)
        self.until(f"the device {device} appears", lambda: self.has(side, device))
        inner = NEAR_INNER if side == "near" else FAR_INNER
        space.run("ip", "address", "add", f"{inner}/24", "dev", device)
        space.run("ip", "link", "set", device, "up", *(("mtu", str(mtu)) if mtu else ()))
        if side == "near":
            self.route(device)

    def route(self, device):
        self.network.near.run("ip", "route", "replace", HOST_NETWORK, "dev", device)

    def devices(self):
        """Devices and addresses of the near end's paths, and their mean rates towards it, in bytes a second."""
        for index, (address, link) in enumerate(zip(self.network.near_addresses, self.network.links)):
            rate_mbps = float(re.search(r"rate=([0-9.]+) Mbit/s", link)[1])
            yield f"anab{index}a", address, int(rate_mbps * 1e6 / 8)


class Anabranch(Tunnel):
    """`anabranch tun`; plain, or with TCP connections that end at the nodes."""

    settling_s = 2

    def __init__(self, name, binary, *flags):
        super().__init__(name, None)
        self.binary = binary
        self.flags = flags

    def lacks(self):
        help_text = subprocess.run((self.binary, "tun", "--help"), capture_output=True, text=True).stdout
        missing = [flag for flag in ("--route", *self.flags) if flag not in help_text]
        return f"{self.binary} tun has no {', '.join(missing)}" if missing else None

    def join(self):
        # Apart from other nodes of the user, whose socket it would take.
        own = os.environ | {name: str(self.work) for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")}
        keys = {side: keygen(self.binary, self.work / f"{side}.key") for side in ("near", "far")}
        # The host has an address of no public network.
        self.run(
            "far", self.binary, "tun", "--serve", "--json", "--key", self.work / "far.key", "--allow", keys["near"],
            "--listen", f"{SERVER}:4433", "--leases", self.work / "leases", "--to", "any", env=own,
        )  # fmt: skip
        ticket = self.until("the server prints a ticket", lambda: self.event("far", "ticket"))["ticket"]
        words = ("tun", ticket, "--json", "--key", self.work / "near.key", "--route", HOST_NETWORK)
        self.run("near", self.binary, *words, *self.flags, env=own)
        self.inner = self.until("the tunnel is up", lambda: self.event("near", "up"))["v4"]

    def event(self, side, kind):
        """An event that an end has printed, or None."""
        for line in self.log(side).read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                event = json.loads(line)
                if event["kind"] == kind:
                    return event
        return None


class Glorytun(Tunnel):
    """glorytun: packets over paths whose rates it is told."""

    programs = ("glorytun",)
    wants_rates = True

    def join(self):
        program, key = self.tools.find("glorytun"), self.work / "key"
        key.write_text(secrets.token_hex(32))
        common = ("keyfile", key)
        self.run("far", program, "bind", "from", "addr", SERVER, "port", "5000", "dev", self.device("far"), *common)
        ends = ("from", "addr", "0.0.0.0", "port", "5000", "to", "addr", SERVER, "port", "5000")
        self.run("near", program, "bind", *ends, "dev", self.device("near"), *common)
        for side in ("far", "near"):
            self.address(side)
        for _, address, rate in self.devices():
            rates = ("rate", "fixed", "tx", str(rate), "rx", str(rate))
            to = ("to", "addr", SERVER, "port", "5000")
            self.network.near.run(program, "path", "dev", self.device("near"), "addr", address, *to, "set", "up", *rates)


class Mlvpn(Tunnel):
    """MLVPN: packets over paths in proportion to their rates, without its reordering (off by default; slower here with it)."""

    programs = ("mlvpn",)
    wants_rates = True
    settling_s = 5

    def join(self):
        program = self.tools.find("mlvpn")
        for side in ("far", "near"):
            text = f"""[general]
mode = "{"server" if side == "far" else "client"}"
tuntap = "tun"
interface_name = "{self.device(side)}"
mtu = 1400
timeout = 30
password = "comparison"
"""
            for index, (_, address, rate) in enumerate(self.devices()):
                text += f'\n[path{index}]\nbindport = {5080 + index}\nbandwidth_upload = {rate}\n'
                if side == "far":
                    text += f'bindhost = "{SERVER}"\n'
                else:
                    text += f'bindhost = "{address}"\nremotehost = "{SERVER}"\nremoteport = {5080 + index}\n'
            config = self.work / f"{side}.conf"
            config.touch(mode=0o600)
            config.write_text(text)
            self.run(side, program, "-c", config, "-n", f"{os.getpid()}{side}", "-u", "root", "--yes-run-as-root")
            self.address(side, 1400)


class Mqvpn(Tunnel):
    """mqvpn: packets in QUIC datagrams under a scheduler; `hybrid` carries TCP connections as streams."""

    programs = ("mqvpn", "openssl")

    def __init__(self, name, tools, scheduler, is_hybrid=False):
        super().__init__(name, tools)
        self.scheduler = scheduler
        self.is_hybrid = is_hybrid

    def join(self):
        program = self.tools.find("mqvpn")
        key, certificate = self.work / "key.pem", self.work / "certificate.pem"
        run_outside(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=comparison",
        )  # fmt: skip
        secret = run_outside(program, "--genkey").decode().split()[-1]
        common = ["--auth-key", secret, "--scheduler", self.scheduler, "--log-level", "warn"]
        if self.is_hybrid:
            config = self.work / "hybrid.conf"
            config.write_text(f"[Hybrid]\nEnabled = true\nTcp = stream\nEgressAllow = {HOST_NETWORK}\n")
            common += ["--config", config]
        server = ("--mode", "server", "--listen", f"{SERVER}:4433", "--subnet", INNER_NETWORK)
        self.run("far", program, *server, "--cert", certificate, "--key", key, "--tun-name", self.device("far"), *common)
        self.until("the server's device appears", lambda: self.has("far", self.device("far")))
        count = len(self.network.near_addresses)
        paths = [word for index in range(count) for word in ("--path", f"anab{index}a")]
        client = ("--mode", "client", "--server", f"{SERVER}:4433", "--insecure", "--no-manage-routes", *paths)
        self.run("near", program, *client, "--tun-name", self.device("near"), *common)
        self.inner = self.until("the client has an address", self.assigned)
        self.route(self.device("near"))

    def assigned(self):
        words = self.network.near.words("ip", "-j", "-4", "address", "show", "dev", self.device("near"))
        done = subprocess.run(words, capture_output=True, text=True)
        rows = json.loads(done.stdout or "[]") if done.returncode == 0 else []
        found = [info["local"] for row in rows for info in row.get("addr_info", ()) if "UP" in row["flags"]]
        return found[0] if found else None


class Engarde(Tunnel):
    """engarde below WireGuard in user space: each packet on every path."""

    programs = ("engarde-client", "engarde-server", "wireguard-go", "openssl")

    def join(self):
        keys = {side: self.key() for side in ("near", "far")}
        listen = {"near": 59301, "far": 59302}
        for side, peer in (("far", "near"), ("near", "far")):
            self.run(side, self.tools.find("wireguard-go"), "-f", self.device(side))
            control = pathlib.Path(f"/var/run/wireguard/{self.device(side)}.sock")
            self.until("wireguard-go listens", control.exists)
            text = f"set=1\nprivate_key={keys[side][0]}\nlisten_port={listen[side]}\npublic_key={keys[peer][1]}\n"
            text += f"replace_allowed_ips=true\nallowed_ip={INNER_NETWORK}\nallowed_ip={HOST_NETWORK}\n"
            if side == "near":
                text += "endpoint=127.0.0.1:59401\npersistent_keepalive_interval=10\n"
            self.configure(control, text + "\n")
            self.address(side, 1400)
        config = self.work / "engarde.yml"
        excluded = ["lo", self.device("near")]
        config.write_text(f"""client:
  listenAddr: "127.0.0.1:59401"
  dstAddr: "{SERVER}:59501"
  writeTimeout: 10
  excludedInterfaces: {json.dumps(excluded)}
server:
  listenAddr: "{SERVER}:59501"
  dstAddr: "127.0.0.1:59302"
  clientTimeout: 30
  writeTimeout: 10
""")
        self.run("far", self.tools.find("engarde-server"), config)
        self.run("near", self.tools.find("engarde-client"), config)

    @staticmethod
    def configure(path, text):
        """Gives wireguard-go its configuration, over the socket of its protocol."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            peer.sendall(text.encode())
            answer = peer.recv(4096).decode()
        if "errno=0" not in answer:
            raise Failure(f"wireguard-go refuses its configuration: {answer.strip()}")

    @staticmethod
    def key():
        """A pair of X25519 keys, in hexadecimal: the private one, the public one."""
        private = run_outside("openssl", "genpkey", "-algorithm", "X25519", "-outform", "DER")
        words = ("openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER")
        public = subprocess.run(words, input=private, capture_output=True, check=True).stdout
        return private[-32:].hex(), public[-32:].hex()


class Aggligator(Tunnel):
    """agg-tunnel of aggligator: TCP connections of one port over a TCP connection for each path; no tunnel of packets."""

    kinds = {"download": "tcp", "messages": "tcp", "keys": "tcp"}
    inner = None
    programs = ("agg-tunnel",)

    def join(self):
        program = self.tools.find("agg-tunnel")
        self.run("far", program, "server", "--no-monitor", "--tcp", "5800", "--port", f"{HOST}:{PORT}:{PORT}")
        time.sleep(1)
        client = ("client", "--ipv4", "--no-monitor", "--tcp", f"{SERVER}:5800", "--tcp-link-filter", "interface-ip")
        self.run("near", program, *client, "--port", f"{PORT}:{PORT}")
        return "127.0.0.1", {"tcp": PORT, "udp": PORT}


def setups(binary, tools):
    """Set-ups by name, each as a function that makes one."""
    made = {"anabranch": lambda: Anabranch("anabranch", binary)}
    made["anabranch-split"] = lambda: Anabranch("anabranch-split", binary, "--split-tcp")
    for controller in ("cubic", "bbr"):
        made[f"mptcp-{controller}"] = functools.partial(Kernel, controller)
    made[Plain.name] = Plain
    for kind in (Glorytun, Mlvpn, Engarde, Aggligator):
        made[kind.__name__.lower()] = functools.partial(kind, kind.__name__.lower(), tools)
    made["mqvpn-hybrid"] = lambda: Mqvpn("mqvpn-hybrid", tools, "wlb", True)
    for scheduler in ("wlb", "minrtt"):
        made[f"mqvpn-{scheduler}"] = functools.partial(Mqvpn, f"mqvpn-{scheduler}", tools, scheduler)
    return made
