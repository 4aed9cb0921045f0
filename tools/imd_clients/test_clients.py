"""Every promised frame, with the right numbers, at imdclient and MDAnalysis."""

import unittest
import unittest.mock
from collections.abc import Callable, Sequence

import MDAnalysis
import numpy as np
from imdclient.IMDClient import IMDClient
from imdclient.IMDProtocol import IMDSessionInfo
from imdclient.tests.server import InThreadIMDServer
from imdclient.utils import sock_contains_data

from setting import Molecule, Setting, Simulation

MOLECULE = Molecule.load()
BAD_PATHS = (
    "fast: rate=60 Mbit/s, delay=20 ms, loss=4 %, jitter=5 ms",
    "slow: rate=20 Mbit/s, delay=90 ms, loss=1 %",
)


def same(one: np.ndarray, other: np.ndarray) -> None:
    """Compares bit by bit."""
    assert one.dtype == other.dtype == np.float32
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


class Clients(unittest.TestCase):
    def begin(self, simulation: Simulation, paths: Sequence[str] = ()) -> Setting:
        simulation.start()
        setting = Setting(simulation.port, paths)
        self.addCleanup(setting.close)
        return setting

    def universe(self, port: int) -> MDAnalysis.Universe:
        address = f"imd://127.0.0.1:{port}"
        if MOLECULE.topology:
            universe = MDAnalysis.Universe(MOLECULE.topology, address)
        else:
            universe = MDAnalysis.Universe.empty(MOLECULE.atoms)
            universe.load_new(address)
        self.addCleanup(universe.trajectory.close)
        return universe

    def check_universe(
        self,
        universe: MDAnalysis.Universe,
        has_all: bool,
        before: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Compares all frames; `before` is called before each is compared."""
        count = 0
        for frame, step in enumerate(universe.trajectory):
            before(frame)
            same(step.positions, MOLECULE.positions[frame])
            self.assertEqual((step.time, step.data["step"]), (frame * 0.5, frame * 250))
            edge = MOLECULE.box[frame, 0, 0]
            np.testing.assert_array_equal(step.dimensions, [edge, edge, edge, 90, 90, 90])
            self.assertEqual((step.has_velocities, step.has_forces), (has_all, has_all))
            if has_all:
                same(step.velocities, MOLECULE.velocities[frame])
                same(step.forces, MOLECULE.forces[frame])
                self.assertEqual(step.data["temperature"], MOLECULE.energies(frame)[0])
            count += 1
        self.assertEqual(count, MOLECULE.frames)

    def test_mdanalysis_reads_all_sections(self) -> None:
        setting = self.begin(Simulation(MOLECULE))
        self.check_universe(self.universe(setting.all), True)

    def test_mdanalysis_reads_the_promised_sections(self) -> None:
        setting = self.begin(Simulation(MOLECULE))
        self.check_universe(self.universe(setting.promised), False)

    def check_over_bad_paths(self, has_all: bool) -> None:
        """The better path is away while a quarter of the frames are read, and then the other one for good."""
        setting = self.begin(Simulation(MOLECULE), BAD_PATHS)
        commands = {
            MOLECULE.frames // 4: "down fast",
            MOLECULE.frames // 2: "up fast",
            MOLECULE.frames * 3 // 4: "down slow",
        }
        change = lambda frame: setting.command(commands[frame]) if frame in commands else None
        port = setting.all if has_all else setting.promised
        self.check_universe(self.universe(port), has_all, change)

    def test_mdanalysis_reads_all_sections_over_bad_paths(self) -> None:
        self.check_over_bad_paths(True)

    def test_mdanalysis_reads_the_promised_sections_over_bad_paths(self) -> None:
        self.check_over_bad_paths(False)

    def test_imdclient_reads_the_other_byte_order(self) -> None:
        setting = self.begin(Simulation(MOLECULE, ">"))
        client = IMDClient("127.0.0.1", setting.all, MOLECULE.atoms)
        self.addCleanup(client.stop)
        self.assertEqual(client.get_imdsessioninfo().endianness, ">")
        for number in range(MOLECULE.frames):
            frame = client.get_imdframe()
            same(frame.positions, MOLECULE.positions[number])
            same(frame.velocities, MOLECULE.velocities[number])
            same(frame.forces, MOLECULE.forces[number])
            np.testing.assert_array_equal(frame.box, MOLECULE.box[number])
            self.assertEqual(list(frame.energies.values())[1:], MOLECULE.energies(number))
            self.assertEqual((frame.time, frame.step), (number * 0.5, number * 250))
        with self.assertRaises(EOFError):
            client.get_imdframe()

    def test_a_client_with_a_small_buffer_pauses_and_reads_everything(self) -> None:
        setting = self.begin(Simulation(MOLECULE))
        bytes_of_frame = 36 * MOLECULE.atoms + 100
        client = IMDClient("127.0.0.1", setting.all, MOLECULE.atoms, buffer_size=5 * bytes_of_frame)
        self.addCleanup(client.stop)
        for number in range(MOLECULE.frames):
            same(client.get_imdframe().positions, MOLECULE.positions[number])

    def test_the_test_server_of_imdclient_is_a_simulation(self) -> None:
        universe = MDAnalysis.Universe.empty(MOLECULE.atoms, trajectory=True)
        universe.load_new(MOLECULE.positions, order="fac", dt=0.5)
        server = InThreadIMDServer(universe.trajectory)
        info = dict(time=True, energies=True, box=False, positions=True, velocities=False, forces=False)
        server.set_imdsessioninfo(
            IMDSessionInfo(version=3, endianness="<", wrapped_coords=False, **info)
        )
        # Its accept has a time limit, which a busy machine can exceed.
        patient = lambda accepting, _seconds: sock_contains_data(accepting, 300)
        patch = unittest.mock.patch("imdclient.tests.server.sock_contains_data", patient)
        patch.start()
        self.addCleanup(patch.stop)
        setting = Setting(None)
        self.addCleanup(setting.close)
        server.handshake_sequence("127.0.0.1", first_frame=False)
        self.addCleanup(server.cleanup)
        while server.port is None:
            pass
        setting.watch(server.port)
        client = IMDClient("127.0.0.1", setting.promised, MOLECULE.atoms)
        self.addCleanup(client.stop)
        server.join_accept_thread()
        server.send_frames(0, MOLECULE.frames)
        for number in range(MOLECULE.frames):
            frame = client.get_imdframe()
            same(frame.positions, MOLECULE.positions[number])
            self.assertEqual(frame.time, universe.trajectory[number].time)
        server.disconnect()
        with self.assertRaises(EOFError):
            client.get_imdframe()


if __name__ == "__main__":
    unittest.main()
