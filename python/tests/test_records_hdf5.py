"""Record sets of HDF5 and netCDF-4 files, against h5py and netCDF4."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import unittest
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from anabranch.records import RecordsError, RecordSet

from .recordfiles import copied, extents, opened, optional, overlaps, write

np, h5py, netCDF4 = map(optional, ("numpy", "h5py", "netCDF4"))


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class Missing(Folder):
    def test_the_error_says_what_to_install(self) -> None:
        write(os.path.join(self.folder, "set.h5"), b"\x89HDF\r\n\x1a\n" + bytes(600))
        with (
            mock.patch.dict(sys.modules, {"h5py": None}),
            self.assertRaisesRegex(RecordsError, r"need h5py: pip install 'anabranch\[records\]'"),
        ):
            opened(self.folder, "set.h5")


@unittest.skipIf(h5py is None, "needs h5py and NumPy")
class Hdf5(Folder):
    def write(self, fill: Callable[[Any], None], **options: Any) -> None:
        with h5py.File(os.path.join(self.folder, "set.h5"), "w", **options) as file:
            fill(file)

    def slices(self, records: RecordSet, names: list[str], per_record: int = 1) -> None:
        """The parts of each record are the slices that h5py reads."""
        with h5py.File(os.path.join(self.folder, "set.h5")) as file:
            for record in records:
                first = record.number * per_record
                for name in names:
                    self.assertEqual(record[name].read(), file[name][first : first + per_record].tobytes(), (record.number, name))

    def copies(self, records: RecordSet, names: list[str], per_record: int = 1) -> None:
        """A copy of the first records is a file that h5py opens, with the values of these records."""
        self.assertEqual(overlaps(records), [])
        for some in (1, len(records)):
            with tempfile.TemporaryDirectory() as target:
                copied(records, target, some)
                with h5py.File(os.path.join(self.folder, "set.h5")) as file, h5py.File(os.path.join(target, "set.h5")) as copy:
                    for name in names:
                        np.testing.assert_array_equal(copy[name][: some * per_record], file[name][: some * per_record])

    def refused(self, fill: Callable[[Any], None], **options: Any) -> str:
        self.write(fill)
        with self.assertRaises(RecordsError) as caught:
            opened(self.folder, "set.h5", **options)
        return str(caught.exception)

    def test_contiguous_arrays_have_equal_distances(self) -> None:
        def fill(file: Any) -> None:
            file["a"] = np.arange(7 * 3 * 5, dtype=">i2").reshape(7, 3, 5)
            file["group/b"] = np.arange(7, dtype="<f8")
            file["c"] = np.zeros(7, dtype=[("x", "<f4"), ("y", "S3")])
            file["other"] = np.arange(11)
            file["scalar"] = 5

        for options in ({}, {"libver": "latest"}, {"userblock_size": 1024}):
            self.write(fill, **options)
            records = opened(self.folder, "set.h5")
            self.assertEqual([component.name for component in records.components], ["header", "a", "c", "group.b"])
            self.slices(records, ["a", "c"])
            with h5py.File(os.path.join(self.folder, "set.h5")) as file:
                self.assertEqual(b"".join(record["group.b"].read() for record in records), file["group/b"][:].tobytes())
            self.copies(records, ["a", "group/b", "c", "other"])
            size = os.stat(os.path.join(self.folder, "set.h5")).st_size
            self.assertEqual(sum(end - begin for _, begin, end in extents(records)), size)
            self.slices(opened(self.folder, "set.h5", per_record=3), ["a", "c"], 3)

    def test_chunks_that_are_not_compressed_give_exact_slices(self) -> None:
        shapes = [
            ((6, 4, 5), (1, 4, 5)),
            ((6, 4, 5), (4, 4, 5)),
            ((6, 7, 9), (1, 3, 9)),
            ((7, 7, 9), (2, 3, 4)),
            ((9,), (4,)),
            ((5, 3), (2, 8)),
        ]
        for options in ({}, {"libver": "latest"}, {"userblock_size": 512}):
            for shape, chunk in shapes:

                def fill(file: Any, shape: Any = shape, chunk: Any = chunk) -> None:
                    data = np.arange(np.prod(shape), dtype="<f4").reshape(shape)
                    file.create_dataset("a", data=data, chunks=chunk, maxshape=(None,) * len(shape))

                self.write(fill, **options)
                with self.subTest(shape=shape, chunk=chunk, **options):
                    for per_record in (1, 2, 4):
                        records = opened(self.folder, "set.h5", per_record=per_record)
                        self.slices(records, ["a"], per_record)
                        self.assertEqual(overlaps(records), [])
                        self.assertEqual(sum(end - begin for _, begin, end in extents(records, ["a"])), np.prod(shape) * 4)

    def test_a_copy_without_the_last_array_can_be_opened(self) -> None:
        for options in ({}, {"chunks": (1, 5)}, {"chunks": (1, 7)}, {"chunks": (1, 5), "compression": "gzip"}):

            def fill(file: Any, options: Any = options) -> None:
                for name in "abc":
                    file.create_dataset(name, data=np.arange(20).reshape(4, 5), maxshape=(4, None) if options else None, **options)

            self.write(fill)
            self.copies(opened(self.folder, "set.h5", components=["a", "b"]), ["a", "b"])
            self.copies(opened(self.folder, "set.h5", components=["a", "b", "c"]), ["a", "b", "c"])
            # What is left out does not become part of the header.
            records = opened(self.folder, "set.h5", components=["a"])
            everything = opened(self.folder, "set.h5")
            self.assertLessEqual(records[0]["header"].size - everything[0]["header"].size, 1)

    def test_compressed_chunks_are_the_bytes_of_the_file(self) -> None:
        source = np.random.default_rng(1)
        values = source.integers(0, 50, (6, 40, 50)).astype("<i4")

        def fill(file: Any) -> None:
            file.create_dataset("a", data=values, chunks=(2, 20, 50), compression="gzip", maxshape=(None, 40, 50))
            file.create_dataset("b", data=values[:, 0], chunks=(1, 50), fletcher32=True, maxshape=(None, 50))
            file.create_dataset("time", data=np.arange(6.0), chunks=(512,), maxshape=(None,), compression="gzip")

        for options in ({}, {"libver": "latest"}, {"userblock_size": 512}):
            self.write(fill, **options)
            records = opened(self.folder, "set.h5")
            self.assertEqual([component.name for component in records.components], ["header", "a", "b"])
            self.assertEqual(len(records), 3)
            with h5py.File(os.path.join(self.folder, "set.h5")) as file:
                for record in records:
                    row = 2 * record.number
                    raw = [file["a"].id.read_direct_chunk((row, column, 0))[1] for column in (0, 20)]
                    self.assertEqual(record["a"].read(), b"".join(raw))
                    self.assertEqual(zlib.decompress(raw[0]), values[row : row + 2, :20].tobytes())
            self.copies(records, ["a", "b", "time"], 2)
        with self.assertRaisesRegex(RecordsError, "variable 'a': 2 of its rows are one piece, but a record has 3"):
            opened(self.folder, "set.h5", per_record=3)
        with self.assertRaisesRegex(RecordsError, "variable 'time': 512 of its rows are one piece"):
            opened(self.folder, "set.h5", components=["a", "time"])
        self.assertEqual(len(opened(self.folder, "set.h5", per_record=6, components=["a", "time", "b"])), 1)

    def test_records_that_were_never_written_are_missing_or_refused(self) -> None:
        def fill(file: Any) -> None:
            array = file.create_dataset("a", (4, 10), "<f4", chunks=(1, 5))
            array[0] = 1
            array[3] = 3
            file["b"] = np.arange(4)

        self.assertIn("variable 'a': chunks of record 1 were never written", self.refused(fill))
        records = opened(self.folder, "set.h5", components=["b", "a,optional"])
        self.assertEqual([("a" in record) for record in records], [True, False, False, True])

        def part(file: Any) -> None:
            file.create_dataset("a", (2, 10), "<f4", chunks=(1, 5))[:, :5] = 1

        self.assertIn("variable 'a': chunks of record 0 were never written", self.refused(part, components=["a,optional"]))

    def test_storage_without_places_is_refused_by_name(self) -> None:
        def compact(file: Any) -> None:
            created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            created.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((4, 2))
            h5py.h5d.create(file.id, b"odd", h5py.h5t.IEEE_F32LE, space, created)

        def external(file: Any) -> None:
            file.create_dataset("odd", (4, 2), "<f4", external=[(os.path.join(self.folder, "data"), 0, 32)])

        def virtual(file: Any) -> None:
            layout = h5py.VirtualLayout((4, 2), "<f4")
            layout[:] = h5py.VirtualSource("others.h5", "a", (4, 2))
            file.create_virtual_dataset("odd", layout)

        def texts(file: Any) -> None:
            file.create_dataset("odd", (4,), h5py.string_dtype())

        def lists(file: Any) -> None:
            file.create_dataset("odd", (4,), h5py.vlen_dtype("<i4"))

        def inner(file: Any) -> None:
            file.create_dataset("odd", (4,), np.dtype([("a", "<i4"), ("b", h5py.string_dtype())]))

        def unwritten(file: Any) -> None:
            file.create_dataset("odd", (4, 2), "<f4")

        for fill, words in [
            (compact, "compact storage"),
            (external, "external storage"),
            (virtual, "virtual dataset"),
            (texts, "variable lengths"),
            (lists, "variable lengths"),
            (inner, "variable lengths"),
            (unwritten, "never written"),
        ]:
            message = self.refused(fill)
            self.assertIn("variable 'odd': ", message)
            self.assertIn(words, message)

            def beside(file: Any, fill: Callable[[Any], None] = fill) -> None:
                fill(file)
                file["good"] = np.arange(4)

            self.write(beside)
            self.slices(opened(self.folder, "set.h5", components=["good"]), ["good"])

    def test_names_that_are_not_utf_8(self) -> None:
        def fill(file: Any) -> None:
            file[b"od\xffd"] = np.arange(4)
            file["good"] = np.arange(4)

        self.assertIn("variable 'od\\udcffd': 'od\\udcffd' cannot be the name of a component", self.refused(fill))
        self.slices(opened(self.folder, "set.h5", components=["good"]), ["good"])
        records = opened(self.folder, "set.h5", components=["all=*"])
        self.assertEqual(records[1]["all"].size, 16)

    def test_too_many_pieces_are_refused(self) -> None:
        def fill(file: Any) -> None:
            file.create_dataset("a", (1, 3000, 3000), "<i1", chunks=(1, 1500, 1500), fillvalue=1)[0, 0, 0] = 1

        self.assertIn("variable 'a': ", self.refused(fill))

        def lying(file: Any, **options: Any) -> None:
            file.create_dataset("a", (2, 1 << 50), "<i1", chunks=(1, 1), **options)[0, 0] = 1

        def long(file: Any) -> None:
            file.create_dataset("a", (1 << 50,), "<i1", chunks=(1,), compression="gzip")[0] = 1

        for fill, options in ((lying, {}), (partial(lying, compression="gzip"), {}), (long, {"per_record": 1 << 40})):
            self.assertIn("pieces of chunks; up to 1048576 are possible", self.refused(fill, **options))
        self.assertIn("chunks of record 1 were never written", self.refused(long))
        self.assertIn("up to 100000000 are possible", self.refused(long, components=["a,optional"]))
        with h5py.File(os.path.join(self.folder, "set.h5"), "w") as file:
            file.create_dataset("a", data=np.zeros((2, 9_000_000), "i1"), chunks=(1, 1_000_000))
        self.assertEqual(len(opened(self.folder, "set.h5")), 2)

    def test_damaged_files_are_refused_in_words(self) -> None:
        def fill(file: Any) -> None:
            file.create_dataset("a", data=np.arange(4000).reshape(40, 100), chunks=(1, 100), compression="gzip")
            file["b"] = np.arange(40)

        self.write(fill)
        with open(os.path.join(self.folder, "set.h5"), "rb") as file:
            data = file.read()
        seed = int(os.environ.get("ANABRANCH_SEED", "1"))
        source = random.Random(seed)
        for turn in range(300):
            damaged = bytearray(data)
            if turn % 3 == 0:
                del damaged[source.randrange(8, len(data)) :]
            for _ in range(source.randint(1, 4)):
                damaged[source.randrange(8, min(len(damaged), 4096) if len(damaged) > 9 else 9) % len(damaged)] = source.randrange(256)
            write(os.path.join(self.folder, "set.h5"), bytes(damaged))
            with self.subTest(seed=seed, turn=turn):
                try:
                    for record in opened(self.folder, "set.h5"):
                        record.read()
                except RecordsError:
                    pass


@unittest.skipIf(netCDF4 is None or h5py is None, "needs netCDF4 and h5py")
class NetCdf4(Folder):
    def test_files_of_the_library(self) -> None:
        for options in (
            {"contiguous": True},
            {"chunksizes": (1, 4, 6)},
            {"chunksizes": (3, 4, 6)},
            {"chunksizes": (1, 2, 6), "zlib": True},
        ):
            is_contiguous = "contiguous" in options
            path = os.path.join(self.folder, "set.nc")
            with netCDF4.Dataset(path, "w", format="NETCDF4") as data:
                data.createDimension("time", 5 if is_contiguous else None)
                data.createDimension("lat", 4)
                data.createDimension("lon", 6)
                data.createDimension("empty", 3)
                data.createVariable("time", "f8", ("time",))[:] = np.arange(5)
                data.createVariable("lat", "f4", ("lat",))[:] = np.arange(4)
                for name in ("t", "deep/u"):
                    variable = data.createVariable(name, "i2", ("time", "lat", "lon"), **options)
                    variable[:] = np.random.default_rng(2).integers(0, 99, (5, 4, 6))
            records = opened(self.folder, "set.nc")
            self.assertEqual({component.name for component in records.components}, {"header", "t", "deep.u", "time"})
            self.assertEqual(len(records), 5)
            self.assertEqual(overlaps(records), [])
            with netCDF4.Dataset(path) as data, tempfile.TemporaryDirectory() as target:
                data.set_auto_maskandscale(False)
                if "zlib" not in options:
                    for record in records:
                        for component, name in (("t", "t"), ("deep.u", "deep/u"), ("time", "time")):
                            self.assertEqual(record[component].read(), np.asarray(data[name][record.number]).tobytes())
                copied(records, target, 3)
                with netCDF4.Dataset(os.path.join(target, "set.nc")) as copy:
                    copy.set_auto_maskandscale(False)
                    for name in ("t", "deep/u", "time"):
                        np.testing.assert_array_equal(copy[name][:3], data[name][:3])
                    np.testing.assert_array_equal(copy["lat"][:], np.arange(4))


if __name__ == "__main__":
    unittest.main()
