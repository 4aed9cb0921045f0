"""Stand-ins for simulations, and nodes with a source and a viewer between them and the clients."""

import json
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Sequence

import numpy as np

PROGRAM = os.environ.get("ANABRANCH", "anabranch")


def free_port() -> int:
    """A port of the loopback address at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Molecule:
    """Frames of a simulation: float32 arrays of shape (frames, atoms, 3), and vectors of the box of shape (frames, 3, 3)."""

    def __init__(self, positions: np.ndarray, topology: str | None) -> None:
        self.positions = positions
        self.topology = topology
        self.frames, self.atoms = positions.shape[:2]
        random = np.random.default_rng(7)
        self.velocities = random.normal(size=positions.shape).astype(np.float32)
        self.forces = random.normal(scale=1e3, size=positions.shape).astype(np.float32)
        edges = 80 + random.random(self.frames, dtype=np.float32)
        self.box = edges[:, None, None] * np.eye(3, dtype=np.float32)

    @classmethod
    def load(cls) -> "Molecule":
        """Adenylate kinase, or a random walk where its files are absent."""
        import MDAnalysis

        folder = pathlib.Path(os.environ.get("ADK_DATA", ""))
        topology, trajectory = folder / "adk.psf", folder / "adk_dims.dcd"
        if topology.is_file() and trajectory.is_file():
            universe = MDAnalysis.Universe(str(topology), str(trajectory))
            frames = [frame.positions.copy() for frame in universe.trajectory]
            return cls(np.array(frames, dtype=np.float32), str(topology))
        random = np.random.default_rng(1)
        steps = random.normal(size=(40, 500, 3)).astype(np.float32)
        return cls(np.cumsum(steps, axis=0, dtype=np.float32), None)

    def energies(self, frame: int) -> list[float]:
        """The nine energies of a frame, each of which a float32 holds."""
        return [float(frame + at) / 8 for at in range(9)]


class Simulation(threading.Thread):
    """Sends all sections of all frames to the first client, after its go, and closes the connection."""

    def __init__(self, molecule: Molecule, order: str = "<") -> None:
        super().__init__(daemon=True)
        self.molecule, self.order = molecule, order
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            info = bytes([1, 1, 1, 1, 0, 1, 1])
            hello = struct.pack("!i", 4) + struct.pack(f"{self.order}i", 3)
            connection.sendall(hello + struct.pack("!ii", 10, 7) + info)
            go = connection.recv(8, socket.MSG_WAITALL)
            assert struct.unpack("!ii", go)[0] == 3, go
            for frame in range(self.molecule.frames):
                connection.sendall(self.packets(frame))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass

    def packets(self, frame: int) -> bytes:
        one, order = self.molecule, self.order
        floats = lambda array: array[frame].astype(f"{order}f4").tobytes()
        sections = [
            (12, 1, struct.pack(f"{order}ddq", 0.002, frame * 0.5, frame * 250)),
            (1, 1, struct.pack(f"{order}i9f", frame * 250, *one.energies(frame))),
            (13, 1, floats(one.box)),
            (2, one.atoms, floats(one.positions)),
            (14, one.atoms, floats(one.velocities)),
            (15, one.atoms, floats(one.forces)),
        ]
        return b"".join(struct.pack("!ii", kind, value) + body for kind, value, body in sections)


class Program:
    """A command of anabranch whose standard output is read."""

    def __init__(self, folder: pathlib.Path, *words: str) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.process = subprocess.Popen(
            [PROGRAM, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def event(self, kind: str) -> dict:
        for line in self.process.stdout:
            event = json.loads(line)
            if event["kind"] == kind:
                return event
        raise AssertionError("the command has ended")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()


class Setting:
    """Two nodes, a source beside the simulation at a port, and a viewer with two endpoints: all sections, and those that are promised.
    Nothing is skipped. Without a port, source and viewer are started by `watch`. Between the nodes is loopback, or there are the emulated
    paths, each described as for `anabranch emulate --path`; they go down and come up by `command`."""

    def __init__(self, port: int | None, paths: Sequence[str] = ()) -> None:
        self.folder = tempfile.TemporaryDirectory()
        at = pathlib.Path(self.folder.name)
        self.programs: list[Program] = []
        ids = [self.keygen(at, name) for name in ("near", "far")]
        listen = free_port()
        target = f"127.0.0.1:{listen}"
        ends = self.emulate(at, paths, target) if paths else [target]
        (at / "far.toml").write_text(
            f'key = "far.key"\nlisten = ["127.0.0.1:{listen}"]\ncontrol = "far.sock"\nlocal = "far.local"\n'
            f'[[peer]]\nname = "near"\nnode = "{ids[0]}"\n'
            'may = ["call", { right = "use-service", services = ["imd/1/watch/adk"] }]\n'
        )
        (at / "near.toml").write_text(
            f'key = "near.key"\nlisten = ["127.0.0.1:{free_port()}"]\ncontrol = "near.sock"\nlocal = "near.local"\n'
            f'[[peer]]\nname = "far"\nnode = "{ids[1]}"\nmay = []\naddresses = {json.dumps(ends)}\n'
        )
        for name in ("far", "near"):
            node = self.start(at, "node", "--config", f"{name}.toml")
            assert node.process.stdout.readline().startswith("node ")
        if port is not None:
            self.watch(port)

    def watch(self, port: int) -> None:
        """Starts a source beside the simulation at the port, and the viewer."""
        at = pathlib.Path(self.folder.name)
        common = ["--name", "adk", "--json", "--wait", "--once"]
        source = self.start(at, "imd", "source", f"127.0.0.1:{port}", "--local", "far.local", *common)
        source.event("serving")
        promised = "127.0.0.1:0=time+box+positions"
        serve = ["--serve", "127.0.0.1:0=all", "--serve", promised]
        self.viewer = self.start(at, "imd", "viewer", "far", "--local", "near.local", *serve, *common)
        endpoints = self.viewer.event("listening")["endpoints"]
        self.all, self.promised = (int(one["address"].rsplit(":")[-1]) for one in endpoints)

    def emulate(self, at: pathlib.Path, paths: Sequence[str], target: str) -> list[str]:
        """Starts emulated paths to the target; returns the addresses at which they begin."""
        words = [word for path in paths for word in ("--path", path)]
        self.emulator = self.start(at, "emulate", "--target", target, "--json", *words)
        return [self.emulator.event("listening")["at"] for _ in paths]

    def command(self, line: str) -> None:
        """A command for the emulator, such as `down NAME`."""
        self.emulator.process.stdin.write(f"{line}\n")
        self.emulator.process.stdin.flush()

    def keygen(self, at: pathlib.Path, name: str) -> str:
        words = [PROGRAM, "keygen", "--key", f"{name}.key"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(at)}
        made = subprocess.run(words, cwd=at, env=environment, check=True, capture_output=True, text=True)
        return next(word for word in made.stdout.split() if len(word) == 52)

    def start(self, at: pathlib.Path, *words: str) -> Program:
        program = Program(at, *words)
        self.programs.append(program)
        return program

    def close(self) -> None:
        for program in reversed(self.programs):
            program.end()
        self.folder.cleanup()
