"""Programs of the comparison: each fetches a file or a directory from the far end to the near end, as its documentation proposes.

Servers wait before the clock starts. `anabranch` uses all paths; a rival uses the first path, the fastest of each pair, or all of them with
the kernel's MPTCP, which `mptcpize` gives its sockets.
"""

import dataclasses
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import subprocess
import time

from gateway_compare.network import SERVER, Failure, stop
from gateway_compare.setups import keygen, use_every_path
from transfer_compare.tools import SSH_PORT, Tool, serve_ssh, ssh_options

from .cases import SET

PORT, RELAY_PORT = 5000, 5001
# Time that a server has after a transfer to end the processes of its connections, whose CPU time then counts as its own.
SETTLING_S = 3
RESOLVER = pathlib.Path("/etc/resolv.conf")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Paths and congestion control of a program's connections; those of `anabranch` are its own."""

    name: str
    controller: str = None
    is_mptcp: bool = False


OWN = Setting("all paths")
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("path-cubic", "cubic"),
        Setting("path-bbr", "bbr"),
        Setting("mptcp-cubic", "cubic", is_mptcp=True),
        Setting("mptcp-bbr", "bbr", is_mptcp=True),
    )
}


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cut_names_off(space):
    """Lets look-ups of names fail at once. The machine's name server has no route back to a namespace, and a GridFTP server waits for
    it for 30 s.
    """
    text = RESOLVER.read_text() if RESOLVER.exists() else ""
    for server in set(re.findall(r"^nameserver\s+([0-9.]+)\s*$", text, re.MULTILINE)):
        if not server.startswith("127."):
            space.run("ip", "route", "add", "unreachable", server)


def control(network, controller):
    """Gives what the far end sends a congestion controller: by its routes, since a namespace can only be set to those that the machine
    allows to everyone.
    """
    for address in network.near_addresses:
        route = json.loads(network.far.run("ip", "-j", "route", "get", address))[0]
        words = ("dev", route["dev"], "src", route["prefsrc"], "congctl", "lock", controller)
        network.far.run("ip", "route", "add", f"{address}/32", *words)


class Program(Tool):
    """A program, and what it started for one transfer."""

    is_ours = False
    packages = ()
    # The end that opens the connections of data, as `use_every_path` names it.
    way = "subflow"

    def __init__(self, tools, binary, setting, case=None, source=None):
        super().__init__(tools, binary)
        self.setting = setting
        self.case = case
        self.source = source
        self.wrapper = ("mptcpize", "run") if setting.is_mptcp else ()
        self.cpu_s = {"near": 0.0, "far": 0.0}

    def lacks(self):
        if missing := super().lacks():
            return f"{missing}: apt-get install {' '.join(self.packages)}"
        return None

    def prepare(self, network, into, work):
        """Sets the connections up, and starts what waits for a transfer."""
        super().prepare(network, into, work)
        for space in network.spaces:
            cut_names_off(space)
        if self.setting.controller:
            control(network, self.setting.controller)
        if self.setting.is_mptcp:
            use_every_path(network, self.way)
        self.serve()

    def serve(self):
        """Starts the server at the far end."""
        raise NotImplementedError

    def fetch(self):
        """Starts the program that fetches; it ends with the transfer."""
        raise NotImplementedError

    @property
    def wanted(self):
        """What is fetched: the only file, or the directory."""
        return self.source / "data.bin" if self.case.files == 1 else self.source

    def start(self, side, *words):
        process = self.run(getattr(self.ends, side), *words)
        process.side = side
        return process

    def end(self, process, limit_s):
        """Waits for a process, and counts its CPU time; its exit code, or None if it has not ended by then."""
        handle = os.pidfd_open(process.pid)
        try:
            if not select.select([handle], [], [], limit_s)[0]:
                return None
        finally:
            os.close(handle)
        before = cpu_s()
        code = process.wait()
        self.cpu_s[process.side] += cpu_s() - before
        return code

    def settle(self):
        """Waits until nothing runs but what this comparison started."""
        own = {process.pid for process in self.processes}
        until = time.monotonic() + SETTLING_S
        while time.monotonic() < until:
            if all(int(pid) in own for space in self.ends.spaces for pid in space.pids()):
                return
            time.sleep(0.02)

    def stop(self):
        if self.processes:
            self.settle()
        for process in reversed(self.processes):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                if self.end(process, 10) is None:
                    stop(process)


class Anabranch(Program):
    """`anabranch records get` through two running nodes, beside one of which `records serve` runs."""

    name = "anabranch"
    is_ours = True
    layout = "pgos"

    def serve(self):
        ids = {end: keygen(self.binary, self.work / f"{end}.key") for end in ("near", "far")}
        rights = '["call", { right = "use-service", services = ["records/1/*"] }]'
        address = f"{SERVER}:4433"
        far = f'listen = ["{address}"]\n[[peer]]\nname = "near"\nnode = "{ids["near"]}"\nmay = {rights}\n'
        interfaces = [f"anab{index}a" for index in range(len(self.ends.near_addresses))]
        near = f'interfaces = {json.dumps(interfaces)}\n[[peer]]\nname = "far"\nnode = "{ids["far"]}"\nmay = []\naddresses = ["{address}"]\n'
        for end, text in (("far", far), ("near", near)):
            at = self.work / end
            at.with_suffix(".toml").write_text(f'key = "{at}.key"\ncontrol = "{at}.sock"\nlocal = "{at}.local"\n{text}')
            self.find_in(self.start(end, self.binary, "node", "--config", f"{at}.toml"), "node ")
        serving = self.start("far", self.binary, "records", "serve", self.source.parent, "--json", "--local", self.work / "far.local")
        self.find_in(serving, '"serving"')
        self.until_open()

    def until_open(self):
        """Waits until every path is open."""
        for _ in range(150):
            words = (self.binary, "paths", "--json", "--control", self.work / "near.sock")
            done = subprocess.run(words, capture_output=True, text=True)
            rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
            if sum(row["state"] == "active" for row in rows) >= len(self.ends.near_addresses):
                return
            time.sleep(0.1)
        raise Failure(f"the paths do not open: {done.stdout} {done.stderr} {self.logs()}")

    def fetch(self):
        words = ("records", "get", "-q", "--layout", self.layout, "--local", self.work / "near.local", f"far:{SET}", self.into)
        return self.start("near", self.binary, *words)


class AnabranchBlocked(Anabranch):
    """The same with a lane for each path, as GridFTP has them."""

    name = "anabranch-blocked"
    layout = "blocked:1MiB"


class GridFtp(Program):
    """`globus-url-copy -p 4` from `globus-gridftp-server`, without security; a directory with four connections and pipelining."""

    name = "gridftp"
    programs = ("globus-url-copy", "globus-gridftp-server")
    packages = ("globus-gass-copy-progs", "globus-gridftp-server-progs")
    # Who sends opens the connections of data, where there are several (GFD.20, mode E).
    way = "signal"

    def serve(self):
        self.serve_at("far", SERVER)

    def serve_at(self, side, address):
        log = self.work / f"log.server-{side}"
        words = ("-aa", "-anonymous-user", "root", "-allow-root", "-p", PORT, "-data-interface", address, "-log-level", "ERROR", "-logfile", log)
        self.start(side, *self.wrapper, self.tools.find("globus-gridftp-server"), *words)
        self.until_listening(getattr(self.ends, side), PORT)

    def fetch(self):
        is_one = self.case.files == 1
        options, at, to = ((), "", "/data.bin") if is_one else (("-r", "-cc", 4, "-pp"), "/", "/")
        ends = (f"ftp://{SERVER}:{PORT}{self.wanted}{at}", f"{self.target}{self.into}{to}")
        return self.start("near", *self.wrapper, self.tools.find("globus-url-copy"), "-q", "-fast", "-p", 4, *options, *ends)

    @property
    def target(self):
        return "file://"


class GridFtpServers(GridFtp):
    """The same between two servers: a third-party transfer, the only kind of which globus-url-copy pipelines the requests."""

    name = "gridftp-servers"

    def serve(self):
        super().serve()
        self.serve_at("near", self.ends.near_addresses[0])

    @property
    def target(self):
        return f"ftp://{self.ends.near_addresses[0]}:{PORT}"


class Rsync(Program):
    """`rsync -a` over ssh."""

    name = "rsync"
    programs = ("rsync", "ssh", "sshd", "ssh-keygen")
    packages = ("rsync", "openssh-client", "openssh-server")

    def serve(self):
        serve_ssh(self.work, SERVER)
        self.start("far", *self.wrapper, shutil.which("sshd"), "-D", "-e", "-f", self.work / "sshd.conf")
        self.until_listening(self.ends.far, SSH_PORT)

    def fetch(self):
        at = self.wanted if self.case.files == 1 else f"{self.wanted}/"
        words = ("rsync", "-a", "-e", f"ssh {ssh_options(self.work)}", f"root@{SERVER}:{at}", f"{self.into}/")
        return self.start("near", *self.wrapper, *words)


class Rclone(Program):
    """`rclone copy --transfers 8`. Programs in Go make system calls that `mptcpize` does not see: socat then takes its connections, which
    it opens to the far end.
    """

    @property
    def programs(self):
        return ("rclone", *self.servers, *(("socat",) if self.setting.is_mptcp else ()))

    servers = ()
    packages = ("rclone", "socat")

    def address(self, port):
        """Where the near end finds the server that listens on a port of the far end."""
        if not self.setting.is_mptcp:
            return SERVER, port
        self.relay("near", "127.0.0.1", RELAY_PORT, f"{SERVER}:{port}")
        return "127.0.0.1", RELAY_PORT

    def relay(self, side, address, port, to):
        words = ("-b", 1 << 18, f"TCP-LISTEN:{port},bind={address},fork,reuseaddr,backlog=64", f"TCP:{to}")
        self.start(side, *self.wrapper, self.tools.find("socat"), *words)
        self.until_listening(getattr(self.ends, side), port)

    def copy(self, remote):
        words = ("copy", "--config", self.work / "none", "--transfers", 8, remote, self.into)
        return self.start("near", self.tools.find("rclone"), *words)


class RcloneSftp(Rclone):
    """rclone from sshd."""

    name = "rclone-sftp"
    servers = ("sshd", "ssh-keygen")
    packages = ("rclone", "openssh-server", "socat")
    serve_ssh = Rsync.serve

    def serve(self):
        self.serve_ssh()
        self.host, self.port = self.address(SSH_PORT)

    def fetch(self):
        # Without a shell it does not run a command for the hash of each file, which takes the server 0.1 s of CPU time.
        options = f"host={self.host},port={self.port},user=root,key_file={self.work}/user,shell_type=none,disable_hashcheck=true"
        return self.copy(f":sftp,{options}:{self.wanted}")


class RcloneHttp(Rclone):
    """rclone from `rclone serve http`."""

    name = "rclone-http"

    def serve(self):
        inner = f"127.0.0.1:{RELAY_PORT}" if self.setting.is_mptcp else f"{SERVER}:{PORT}"
        words = ("serve", "http", "--config", self.work / "none", "--addr", inner, self.source)
        self.start("far", self.tools.find("rclone"), *words)
        self.until_listening(self.ends.far, int(inner.rpartition(":")[2]))
        if self.setting.is_mptcp:
            self.relay("far", SERVER, PORT, inner)
        self.host, self.port = self.address(PORT)

    def fetch(self):
        what = "data.bin" if self.case.files == 1 else ""
        return self.copy(f":http,url='http://{self.host}:{self.port}':{what}")


PROGRAMS = {program.name: program for program in (Anabranch, AnabranchBlocked, GridFtp, GridFtpServers, Rsync, RcloneSftp, RcloneHttp)}


def lacks_mptcp():
    """What is missing to run programs with MPTCP, or None."""
    if not os.path.exists("/proc/sys/net/mptcp/enabled"):
        return "this kernel has no MPTCP"
    if not shutil.which("mptcpize"):
        return "no mptcpize: apt-get install mptcpize"
    return None
