"""Tools of the comparison: each sends a file or a directory from the near end to the far end, with the settings of its documentation.

Each is started as its user would. `anabranch recv`, `sshd` and croc's relay wait before the clock starts; the receivers of croc and sendme need
what their senders print, and start as soon as it is there.
"""

import os
import re
import shutil
import subprocess
import time

from gateway_compare.network import Failure

LONGEST_S = 600
SSH_PORT, RELAY_PORT = 2222, 9009
SECRET = "1234-alpha-beta-gamma"


class Tool:
    """A tool, and what it started for one transfer."""

    programs = ()
    # Said in the table.
    remark = ""

    def __init__(self, tools, binary):
        self.tools = tools
        self.binary = binary
        self.processes = []

    def lacks(self):
        """What is missing to run it, or None."""
        missing = [name for name in self.programs if not self.tools.find(name)]
        return f"no {', '.join(missing)}" if missing else None

    def prepare(self, ends, into, work):
        """Starts what waits for a transfer."""
        self.ends, self.into, self.work = ends, into, work
        self.environment = os.environ | {"HOME": str(work), "XDG_CONFIG_HOME": str(work), "XDG_RUNTIME_DIR": str(work)}

    def send(self, source):
        """Starts the sender, and what its transfer needs from then on; the processes that end with the transfer."""
        raise NotImplementedError

    def run(self, space, *words, **options):
        """Starts a program; its output goes to a log."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("env", self.environment)
        log = self.work / f"log{len(self.processes)}"
        with log.open("wb") as file:
            options = {"stdout": file, "stderr": subprocess.STDOUT} | options
            process = space.start(*map(str, words), **options)
        process.log = log
        self.processes.append(process)
        return process

    def find_in(self, process, pattern, limit_s=30):
        """What a program prints, once it is there."""
        end = time.monotonic() + limit_s
        while not (found := re.search(pattern, process.log.read_text(errors="replace"))):
            if process.poll() is not None or time.monotonic() > end:
                raise Failure(f"{self.name}: nothing like {pattern} in: {self.logs()}")
            time.sleep(0.002)
        return found[0]

    def until_listening(self, space, port):
        """Waits until something listens on a TCP port of a namespace."""
        for _ in range(500):
            if f":{port} " in space.run("ss", "-ltn"):
                return
            time.sleep(0.02)
        raise Failure(f"{self.name}: nothing listens on {port}: {self.logs()}")

    def logs(self):
        texts = [log.read_text(errors="replace")[-400:].strip() for log in sorted(self.work.glob("log*"))]
        return " | ".join(text for text in texts if text)

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


class Anabranch(Tool):
    """`anabranch send` to `recv`, over every path."""

    name = "anabranch"

    def prepare(self, ends, into, work):
        super().prepare(ends, into, work)
        words = (self.binary, "recv", "-q", "--key", work / "r.key", into)
        self.receiver = self.run(ends.far, *words)
        self.ticket = self.find_in(self.receiver, r"anabranch1:\S+")

    def send(self, source):
        words = (self.binary, "send", "-q", "--direct", "--key", self.work / "s.key", source, self.ticket)
        return [self.run(self.ends.near, *words), self.receiver]


def serve_ssh(work, address):
    """Writes keys and the configuration of an sshd at an address, and what its client needs."""
    for name in ("host", "user"):
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", work / name), check=True)
    shutil.copy(work / "user.pub", work / "authorized")
    (work / "sshd.conf").write_text(
        f"Port {SSH_PORT}\nHostKey {work}/host\nAuthorizedKeysFile {work}/authorized\nPidFile none\nStrictModes no\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nUsePAM no\nUseDNS no\nSubsystem sftp internal-sftp\n"
    )
    key = (work / "host.pub").read_text()
    (work / "known").write_text(f"[{address}]:{SSH_PORT} {key}")


def ssh_options(work):
    """Options of ssh to that server."""
    return f"-F none -i {work}/user -p {SSH_PORT} -o UserKnownHostsFile={work}/known -o IdentitiesOnly=yes -o BatchMode=yes"


class Rsync(Tool):
    """`rsync -a` over ssh, on the best path."""

    name = "rsync"
    programs = ("rsync", "ssh", "sshd", "ssh-keygen")
    remark = "one path"

    def prepare(self, ends, into, work):
        super().prepare(ends, into, work)
        serve_ssh(work, ends.address)
        self.server = self.run(ends.far, shutil.which("sshd"), "-D", "-e", "-f", work / "sshd.conf")
        self.until_listening(ends.far, SSH_PORT)

    def send(self, source):
        words = ("rsync", "-a", "-e", f"ssh {ssh_options(self.work)}", source, f"root@{self.ends.address}:{self.into}/")
        return [self.run(self.ends.near, *words)]


class Croc(Tool):
    """`croc` with a relay of its own beside the sender, on the best path."""

    name = "croc"
    programs = ("croc",)
    remark = "one path"

    def prepare(self, ends, into, work):
        super().prepare(ends, into, work)
        self.environment |= {"CROC_SECRET": SECRET}
        self.croc = self.tools.find("croc")
        self.relay = f"{ends.near_address}:{RELAY_PORT}"
        ports = ",".join(str(RELAY_PORT + index) for index in range(5))
        self.run(ends.near, self.croc, "relay", "--host", ends.near_address, "--ports", ports)
        for index in range(5):
            self.until_listening(ends.near, RELAY_PORT + index)

    def send(self, source):
        common = (self.croc, "--ignore-stdin", "--disable-clipboard", "--yes", "--relay", self.relay)
        sender = self.run(self.ends.near, *common, "send", "--no-local", source)
        self.find_in(sender, "(?i)code is")
        return [sender, self.run(self.ends.far, *common, "--overwrite", "--out", self.into)]


class Sendme(Tool):
    """`sendme` without relays, on the best path."""

    name = "sendme"
    programs = ("sendme",)
    remark = "one path"

    def send(self, source):
        sendme = self.tools.find("sendme")
        near = self.work / "near"
        near.mkdir()
        words = (sendme, "send", "--relay", "disabled", "--ticket-type", "addresses", source)
        sender = self.run(self.ends.near, *words, cwd=near)
        ticket = self.find_in(sender, r"blob[a-z0-9]{60,}")
        receiver = self.run(self.ends.far, sendme, "receive", "--relay", "disabled", ticket, cwd=self.into)
        # The sender serves until it is stopped.
        return [receiver]


TOOLS = {tool.name: tool for tool in (Anabranch, Rsync, Croc, Sendme)}
