"""Record sets of netCDF classic files, against the package netCDF4 and files written from the definition."""

from __future__ import annotations

import os
import random
import tempfile
import tracemalloc
import unittest
from typing import Any

from anabranch.records import RecordsError

from .recordfiles import Var, cdf, copied, extents, opened, optional, overlaps, write

np, netCDF4 = optional("numpy"), optional("netCDF4")

#: Recorded data: `ANABRANCH_DATA`, or `shared/data` beside the repository.
DATA = os.environ.get("ANABRANCH_DATA") or os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "shared", "data")
#: A file of the ERA-Interim reanalysis.
ERA = os.path.join(DATA, "media", "eraint_uvz.nc")


def rows(count: int, size: int, seed: int) -> list[bytes]:
    """Values of records."""
    source = random.Random(seed)
    return [source.randbytes(size) for _ in range(count)]


def example(version: int, **options: Any) -> tuple[bytes, dict[str, Var]]:
    """A file with fixed variables and those of records, one of which is padded."""
    variables = {
        "lat": Var("float", ["lat"], bytes(range(12))),
        "flag": Var("byte", ["lat"], b"abc"),
        "t": Var("short", ["time", "lat"], rows(5, 6, 1)),
        "time": Var("double", ["time"], rows(5, 8, 2)),
        "u": Var("float", ["time", "lat", "lon"], rows(5, 24, 3)),
        "scalar": Var("int", [], b"\0\0\0\7"),
    }
    return cdf(version, {"time": 0, "lat": 3, "lon": 2}, variables, **options), variables


class Classic(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, data: bytes, name: str = "set.nc") -> str:
        return write(os.path.join(self.folder, name), data)

    def refused(self, data: bytes, **options: Any) -> str:
        self.file(data)
        with self.assertRaises(RecordsError) as caught:
            opened(self.folder, "set.nc", **options)
        return str(caught.exception)

    def test_records_have_the_bytes_of_their_variables(self) -> None:
        for version in (1, 2, 5):
            data, variables = example(version)
            self.file(data)
            records = opened(self.folder, "set.nc")
            self.assertEqual([component.name for component in records.components], ["header", "t", "time", "u"])
            self.assertEqual(len(records), 5)
            for number, record in enumerate(records):
                for name in ("t", "time", "u"):
                    self.assertEqual(record[name].read(), variables[name].data[number], (version, number, name))
            self.assertEqual(overlaps(records), [])
            # Nothing is missing but what pads the records of `t`.
            covered = sum(end - begin for _, begin, end in extents(records))
            self.assertEqual(covered, len(data) - 5 * 2)
            self.assertEqual(list(records[1]), ["t", "time", "u"])

    def test_a_single_variable_of_records_is_not_padded(self) -> None:
        values = rows(4, 3, 1)
        self.file(cdf(1, {"time": 0, "x": 3}, {"a": Var("byte", ["time", "x"], values)}))
        records = opened(self.folder, "set.nc", header=False)
        self.assertEqual([record["a"].read() for record in records], values)

    def test_a_file_that_is_being_written_has_the_records_that_are_there(self) -> None:
        for version, most in ((1, (1 << 32) - 1), (5, (1 << 64) - 1)):
            data, variables = example(version, records=most)
            self.file(data + b"\0" * 5)
            records = opened(self.folder, "set.nc")
            self.assertEqual([record["u"].read() for record in records], variables["u"].data)

    def test_fixed_variables_have_records_along_their_first_dimension(self) -> None:
        data, variables = example(2)
        self.file(data)
        records = opened(self.folder, "set.nc", along="lat")
        self.assertEqual([component.name for component in records.components], ["header", "lat", "flag"])
        self.assertEqual(b"".join(record["lat"].read() for record in records), variables["lat"].data)
        self.assertEqual(b"".join(record["flag"].read() for record in records), variables["flag"].data)
        self.assertEqual(sum(end - begin for _, begin, end in extents(records)), len(data))
        self.assertEqual(overlaps(records), [])

    def test_several_rows_are_a_record(self) -> None:
        data, variables = example(1)
        self.file(data)
        records = opened(self.folder, "set.nc", per_record=2)
        self.assertEqual(len(records), 3)
        self.assertEqual([record["u"].read() for record in records], [b"".join(variables["u"].data[at : at + 2]) for at in (0, 2, 4)])  # type: ignore[arg-type]
        records = opened(self.folder, "set.nc", along="lat", per_record=2, header=False)
        self.assertEqual([record["flag"].read() for record in records], [b"ab", b"c"])

    def test_variables_are_chosen_grouped_and_ordered(self) -> None:
        data, variables = example(1)
        self.file(data)
        chosen = ["u,promise=0.95,deadline=2 s", "rest=t*,rate=1 Mbit/s", "header,deadline=1 s"]
        records = opened(self.folder, "set.nc", components=chosen, rate="25/s")
        self.assertEqual([component.name for component in records.components], ["u", "rest", "header"])
        self.assertEqual(records.components[0].promise, 0.95)
        self.assertEqual(records.components[1].rate_bps, 1e6)
        self.assertEqual(records.components[2].deadline_s, 1.0)
        for number, record in enumerate(records):
            self.assertEqual(record["rest"].read(), variables["t"].data[number] + variables["time"].data[number])  # type: ignore[operator]
        records = opened(self.folder, "set.nc", components=["u", "*"], header=False)
        self.assertEqual([component.name for component in records.components], ["u", "t", "time"])
        for wrong, words in [
            ("x", "no source has a variable like 'x'; there are lat, flag, t, time, u"),
            ("t,rate=fast", "write a number and a unit"),
            ("t,promise=1", "a share of windows"),
            ("u=time", "component 'u': it is named twice"),
            ("t,colour=red", "'colour=red' is not possible"),
            ("a=t", "two components would have it"),
            ("lat", "first dimension is lat (3), not time (5, unlimited)"),
        ]:
            with self.assertRaisesRegex(RecordsError, words.replace("(", r"\(").replace(")", r"\)")):
                opened(self.folder, "set.nc", components=["t", "u", wrong])

    def test_a_variable_of_one_dimension_that_is_not_chosen_is_in_the_header(self) -> None:
        data, variables = example(2)
        self.file(data)
        records = opened(self.folder, "set.nc", components=["u"])
        self.assertEqual(overlaps(records), [])
        pieces = records[0]["header"].extents
        assert pieces is not None
        # The rest, five times of the records, and the scalar; nothing of `t`, which has two dimensions.
        self.assertEqual(sum(size for _, size in pieces), len(data) - 5 * (8 + 24 + 8) + 5 * 8)

    def test_files_follow_one_another_or_stand_side_by_side(self) -> None:
        both = {}
        for name in ("a", "b"):
            values = rows(3, 4, ord(name))
            both[name] = values
            self.file(cdf(1, {"time": 0, "x": 1}, {"v": Var("float", ["time", "x"], values)}), f"{name}.nc")
        other = rows(6, 8, 9)
        self.file(cdf(2, {"time": 0}, {"w": Var("double", ["time"], other)}), "w.nc")
        records = opened(self.folder, "a.nc", "b.nc", "w.nc")
        self.assertEqual([component.name for component in records.components], ["header.a", "header.w", "v", "w"])
        self.assertEqual([record["v"].read() for record in records], both["a"] + both["b"])
        self.assertEqual([record["w"].read() for record in records], other)
        self.assertEqual([record.number for record in records if "header.a" in record], [0, 3])
        with self.assertRaisesRegex(RecordsError, "'v' has 3 records, 'w' has 6"):
            opened(self.folder, "a.nc", "w.nc")
        with self.assertRaisesRegex(RecordsError, "named twice"):
            opened(self.folder, "a.nc", "b.nc", "a.nc")

    def test_damaged_headers_are_refused_in_words(self) -> None:
        data, _ = example(1)
        for end in range(len(data) - 30):
            self.refused(data[:end])
        self.assertIn("the file has 40", self.refused(data[:40]))
        self.assertIn("variable 'u': its data would end at byte", self.refused(data[:-8]))
        self.assertIn("variable 't'", self.refused(example(1, records=1 << 30)[0]))
        huge = cdf(1, {"time": 0, "x": 1 << 31, "y": 1 << 31}, {"a": Var("int", ["x", "y"], b"")})
        self.assertIn("variable 'a': its data would end at byte", self.refused(huge))
        empty = cdf(5, {"time": 0, "x": 0}, {"a": Var("int", ["time"], [])})
        self.assertIn("2 unlimited dimensions", self.refused(empty))
        # Records without bytes can be any number.
        nothing = cdf(5, {"time": 0}, {"a": Var("int", ["time"], [b"", b""])}, records=1 << 60)
        self.assertIn("variable 'a'", self.refused(nothing))
        none = cdf(1, {"time": 0, "x": 2}, {"a": Var("int", ["time", "x"], [])})
        self.assertIn("no steps, so there are no records yet", self.refused(none))
        self.assertIn("first dimension 'day'; there are lat (3), time (5, unlimited)", self.refused(data, along="day"))
        self.assertIn("neither netCDF nor HDF5", self.refused(b"plain text"))
        self.assertIn("version 1, 2 or 5", self.refused(b"CDF\x03" + data[4:]))

    def test_counts_that_lie_take_no_memory(self) -> None:
        data, _ = example(5)
        # The number of dimensions, the length of a name, the number of variables' dimensions.
        for at, value in ((16, 1 << 40), (16, 1 << 19), (24, 1 << 50), (24, 4000)):
            lying = bytearray(data)
            lying[at : at + 8] = value.to_bytes(8, "big")
            tracemalloc.start()
            self.refused(bytes(lying))
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(most, 1 << 20)

    def test_mutated_headers_are_read_or_refused(self) -> None:
        seed = int(os.environ.get("ANABRANCH_SEED", "1"))
        source = random.Random(seed)
        accepted = 0
        for turn in range(3000):
            data = bytearray(example(source.choice((1, 2, 5)))[0])
            for _ in range(source.randint(1, 3)):
                at = source.randrange(len(data) - 200 if source.random() < 0.9 else len(data))
                kind = source.randrange(4)
                if kind == 0:
                    data[at] ^= 1 << source.randrange(8)
                elif kind == 1:
                    data[at] = source.choice((0, 1, 0x7F, 0x80, 0xFF))
                elif kind == 2:
                    at -= at % 4
                    data[at : at + 4] = source.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x0b"))
                else:
                    del data[at : at + source.randint(1, 8)]
            self.file(bytes(data))
            with self.subTest(seed=seed, turn=turn):
                try:
                    records = opened(self.folder, "set.nc")
                except RecordsError:
                    continue
                accepted += 1
                if len(records) <= 100:
                    self.assertEqual(overlaps(records), [])
                    for record in records:
                        record.read()
        self.assertGreater(accepted, 100)


@unittest.skipIf(netCDF4 is None, "needs netCDF4 and NumPy")
class Library(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def check(self, file: str, count: int, **options: Any) -> None:
        """The parts of each record are the slices that the library reads, and a copy of the first records is a file that it opens."""
        records = opened(self.folder, file, **options)
        self.assertEqual(len(records), count)
        self.assertEqual(overlaps(records), [])
        names = [component.name for component in records.components if component.name != "header"]
        with netCDF4.Dataset(os.path.join(self.folder, file)) as data:
            data.set_auto_maskandscale(False)
            for record in records:
                for name in names:
                    # The bytes of files are big endian.
                    expected = np.asarray(data[name][record.number])
                    self.assertEqual(record[name].read(), expected.astype(expected.dtype.newbyteorder(">")).tobytes(), name)
            for some in (1, count):
                with tempfile.TemporaryDirectory() as target:
                    with netCDF4.Dataset(os.path.join(copied(records, target, some), file)) as copy:
                        copy.set_auto_maskandscale(False)
                        for name, variable in data.variables.items():
                            length = some if name in names else None
                            np.testing.assert_array_equal(copy[name][:length], variable[:length])

    def test_files_of_the_library(self) -> None:
        for kind in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
            for is_unlimited in (True, False):
                path = os.path.join(self.folder, f"{kind}-{is_unlimited}.nc")
                source = np.random.default_rng(1)
                with netCDF4.Dataset(path, "w", format=kind) as data:
                    data.title = "odd lengths"
                    data.createDimension("time", None if is_unlimited else 7)
                    data.createDimension("lat", 3)
                    data.createDimension("lon", 5)
                    data.createVariable("lat", "f4", ("lat",))[:] = [1, 2, 3]
                    wide = ["i8"] if kind == "NETCDF3_64BIT_DATA" else []
                    for number, dtype in enumerate(["i2", "i1", "f4", "f8", "S1", *wide]):
                        variable = data.createVariable(f"v{number}", dtype, ("time", "lat", "lon"))
                        variable.units = "m" * number
                        values = source.integers(-100, 100, (7, 3, 5))
                        variable[:] = np.full((7, 3, 5), b"x", "S1") if dtype == "S1" else values
                    data.createVariable("time", "f8", ("time",))[:] = np.arange(7)
                self.check(os.path.basename(path), 7)

    @unittest.skipUnless(os.path.exists(ERA), "no recorded data; set ANABRANCH_DATA")
    def test_era_interim(self) -> None:
        os.symlink(ERA, os.path.join(self.folder, "era.nc"))
        self.check("era.nc", 2)
