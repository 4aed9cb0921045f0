"""Exported directories through fsspec."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import pickle
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any

from .exporter import PROGRAM, SEED, Running, data, exporter, reader_id, sections
from .exporter import attached as attached_to
from .support import run

try:
    import fsspec

    from anabranch import AnabranchError
    from anabranch.fs import AnabranchFileSystem
except ImportError:
    raise unittest.SkipTest("fsspec is not installed") from None

#: Larger than what is asked for at a time.
LARGE = bytes(range(251)) * 80_000


def lacking(*modules: str) -> str:
    """Names of modules that cannot be imported."""
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            missing.append(module)
    return ", ".join(missing)


class Exported(unittest.TestCase):
    """A node that exports a folder, and the options for a node of this process that reads it."""

    far: Running
    work: Path
    folder: Path
    options: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        if not PROGRAM.exists():
            raise unittest.SkipTest("the program anabranch is not installed beside this Python")
        cls.work = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder = cls.work / "exported"
        (cls.folder / "sub" / "deep").mkdir(parents=True)
        (cls.folder / "small").write_bytes(b"0123456789")
        (cls.folder / "large").write_bytes(LARGE)
        (cls.folder / "sub" / "a b.csv").write_text("x,y\n1,2\n3,4\n")
        (cls.folder / "sub" / "deep" / "leaf").write_bytes(b"leaf")
        (cls.folder / "empty").write_bytes(b"")
        (cls.folder / "secret").write_bytes(b"s")
        (cls.folder / "outward").symlink_to("/etc/hostname")
        cls.far = cls.enterClassContext(exporter(cls.work, cls.folder, [reader_id()]))
        cls.options = {"ticket": cls.far.ticket, "key": SEED, "bind": ["127.0.0.1:0"]}

    def fs(self, **options: Any) -> AnabranchFileSystem:
        made: AnabranchFileSystem = fsspec.filesystem("anabranch", **self.options, **options)
        return made


class Reading(Exported):
    def test_the_protocol_is_known_to_fsspec(self) -> None:
        self.assertIs(fsspec.get_filesystem_class("anabranch"), AnabranchFileSystem)
        with fsspec.open("anabranch://far/data/small", **self.options) as file:
            self.assertEqual(file.read(), b"0123456789")

    def test_entries_are_listed(self) -> None:
        fs = self.fs()
        self.assertEqual(fs.ls("far", detail=False), ["far/data"])
        names = ["empty", "large", "secret", "small", "sub"]
        self.assertEqual(fs.ls("anabranch://far/data/", detail=False), [f"far/data/{name}" for name in names])
        info = fs.info("far/data/small")
        self.assertEqual((info["name"], info["type"], info["size"]), ("far/data/small", "file", 10))
        self.assertEqual(info["modified_ns"], (self.folder / "small").stat().st_mtime_ns)
        self.assertTrue(fs.isdir("far/data/sub") and fs.isfile("far/data/small") and not fs.exists("far/data/none"))
        self.assertEqual(fs.glob("anabranch://far/data/**/*.csv"), ["far/data/sub/a b.csv"])
        self.assertEqual(fs.find("far/data/sub"), ["far/data/sub/a b.csv", "far/data/sub/deep/leaf"])
        self.assertEqual(fs.du("far/data/sub"), 12 + 4)
        walked = [(at, sorted(folders), sorted(files)) for at, folders, files in fs.walk("far/data/sub")]
        self.assertEqual(walked, [("far/data/sub", ["deep"], ["a b.csv"]), ("far/data/sub/deep", [], ["leaf"])])
        self.assertAlmostEqual(fs.modified("far/data/small").timestamp(), (self.folder / "small").stat().st_mtime, 3)

    def test_ranges(self) -> None:
        fs = self.fs()
        for start, end in [(None, None), (2, 5), (0, None), (None, 4), (-3, None), (2, -2), (-4, -1), (8, 99), (20, 30), (5, 5)]:
            self.assertEqual(fs.cat_file("far/data/small", start, end), b"0123456789"[start:end], (start, end))
        self.assertEqual(fs.cat_file("far/data/large"), LARGE)
        self.assertEqual(fs.cat_file("far/data/large", 1_000_003, 19_000_001), LARGE[1_000_003:19_000_001])
        self.assertEqual(fs.cat_file("far/data/empty"), b"")
        both = fs.cat(["far/data/small", "far/data/sub/deep/leaf"])
        self.assertEqual(both, {"far/data/small": b"0123456789", "far/data/sub/deep/leaf": b"leaf"})

    def test_many_ranges_at_a_time(self) -> None:
        fs = self.fs()
        starts = [number * 61_001 for number in range(300)]
        ends = [start + 1 + number * 17 for number, start in enumerate(starts)]
        ranges = fs.cat_ranges(["far/data/large"] * 300, starts, ends)
        self.assertEqual(ranges, [LARGE[start:end] for start, end in zip(starts, ends, strict=True)])
        found, missing = fs.cat_ranges(["far/data/small", "far/data/none"], 0, 2, on_error="return")
        self.assertEqual(found, b"01")
        self.assertIsInstance(missing, FileNotFoundError)
        with self.assertRaises(FileNotFoundError):
            fs.cat_ranges(["far/data/none"], [0], [2], on_error="raise")

    def test_files_are_buffered_and_copied(self) -> None:
        fs = self.fs()
        with fs.open("far/data/large", block_size=100_000) as file:
            self.assertEqual(file.read(7), LARGE[:7])
            file.seek(10_000_000)
            self.assertEqual(file.read(300_000), LARGE[10_000_000:10_300_000])
            file.seek(-5, os.SEEK_END)
            self.assertEqual(file.read(), LARGE[-5:])
        for cache in ["none", "bytes", "blockcache", "background", "readahead", "first", "all"]:
            with fs.open("far/data/large", block_size=1 << 20, cache_type=cache) as file:
                self.assertEqual(file.read(3_000_000), LARGE[:3_000_000], cache)
        with fsspec.open("simplecache::anabranch://far/data/small", anabranch=self.options) as file:
            self.assertEqual(file.read(), b"0123456789")
        with fs.open("far/data/sub/a b.csv", "r") as text:
            self.assertEqual(text.readlines(), ["x,y\n", "1,2\n", "3,4\n"])
        fs.get("far/data/large", str(self.work / "copy"))
        self.assertEqual((self.work / "copy").read_bytes(), LARGE)
        fs.get("far/data/sub", str(self.work / "tree"), recursive=True)
        self.assertEqual((self.work / "tree" / "deep" / "leaf").read_bytes(), b"leaf")

    def test_errors_are_those_of_files(self) -> None:
        fs: Any = self.fs()
        with self.assertRaises(FileNotFoundError):
            fs.cat_file("far/data/none")
        with self.assertRaises(FileNotFoundError):
            fs.open("far/other/x")
        with self.assertRaises(IsADirectoryError):
            fs.cat_file("far/data/sub")
        with self.assertRaises(IsADirectoryError):
            fs.open("far/data/sub")
        with self.assertRaises(PermissionError):
            fs.cat_file("far/data/outward")
        with self.assertRaisesRegex(ValueError, "PEER/EXPORT/PATH"):
            fs.ls("")
        changes: list[Any] = [
            lambda: fs.open("far/data/new", "wb"),
            lambda: fs.rm("far/data/small"),
            lambda: fs.pipe_file("far/data/new", b"x"),
            lambda: fs.mkdir("far/data/new"),
            lambda: fs.makedirs("far/data/new/deep"),
            lambda: fs.touch("far/data/new"),
            lambda: fs.mv("far/data/small", "far/data/new"),
            lambda: fs.cp_file("far/data/small", "far/data/new"),
            lambda: fs.put_file(str(self.folder / "small"), "far/data/new"),
        ]
        for change in changes:
            with self.assertRaisesRegex(OSError, "read only"):
                change()
        with self.assertRaisesRegex(ValueError, "ticket"):
            AnabranchFileSystem(key=SEED)

    def test_a_node_without_the_right_is_refused(self) -> None:
        fs = fsspec.filesystem("anabranch", **{**self.options, "key": bytes(32)})
        with self.assertRaises(PermissionError):
            fs.ls("far/data")

    def test_a_file_that_changes_is_an_error(self) -> None:
        fs = self.fs()
        path = self.folder / "changing"
        path.write_bytes(b"a" * 3_000_000)
        first = fs.ukey("far/data/changing")
        with fs.open("far/data/changing", block_size=1000, cache_type="none") as file:
            self.assertEqual(file.read(10), b"a" * 10)
            path.write_bytes(b"b" * 3_000_001)
            with self.assertRaisesRegex(OSError, "changed"):
                file.read(10)
        self.assertNotEqual(fs.ukey("far/data/changing"), first)
        self.assertEqual(fs.checksum("far/data/changing"), int(fs.ukey("far/data/changing"), 16))
        path.unlink()

    def test_several_threads_and_instances_share_a_session(self) -> None:
        results: list[bytes] = []
        self.fs().ls("far")
        sessions = self.far.log().count("connected with reader0")

        def read(number: int) -> None:
            fs = self.fs(skip_instance_cache=True)
            results.append(fs.cat_file("far/data/large", number * 1000, number * 1000 + 500_000))

        threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        expected = {LARGE[number * 1000 : number * 1000 + 500_000] for number in range(8)}
        self.assertEqual(set(results), expected)
        self.assertEqual(self.far.log().count("connected with reader0"), sessions)

    def test_coroutines_in_a_loop_of_the_program(self) -> None:
        async def read() -> None:
            fs = self.fs(asynchronous=True, skip_instance_cache=True)
            self.assertEqual(await fs._cat_file("far/data/small", 1, 3), b"12")
            file = await fs.open_async("far/data/large")
            self.assertEqual(await file.read(100), LARGE[:100])
            self.assertEqual(await file.read(100), LARGE[100:200])
            await file.close()
            with self.assertRaises(OSError):
                await fs.open_async("far/data/large", "wb")
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0):
                    await fs._cat_file("far/data/large")
            self.assertEqual(await fs._cat_file("far/data/small"), b"0123456789")

        asyncio.run(read())

    def test_pickles_connect_again(self) -> None:
        fs = self.fs()
        again = pickle.loads(pickle.dumps(fs))
        self.assertEqual(again.cat_file("far/data/small"), b"0123456789")
        with fs.open("far/data/small") as file:
            copy = pickle.loads(pickle.dumps(file))
        self.assertEqual(copy.read(), b"0123456789")
        code, out, err = run(f"""
        import pickle
        fs = pickle.loads({pickle.dumps(fs)!r})
        print(fs.cat_file("far/data/small"))
        """)
        self.assertEqual((code, out.strip()), (0, "b'0123456789'"), err)

    def test_a_forked_child_is_told_and_may_open_its_own(self) -> None:
        code, out, err = run(f"""
        import os, sys
        import fsspec
        options = {self.options!r}
        fs = fsspec.filesystem("anabranch", **options)
        assert fs.cat_file("far/data/small", 0, 1) == b"0"
        child = os.fork()
        if child == 0:
            try:
                fs.cat_file("far/data/small")
            except RuntimeError as error:
                print("told:", error, flush=True)
            print("child:", fsspec.filesystem("anabranch", **options).cat_file("far/data/small"), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(fs.cat_file("far/data/small", 0, 2))
        """)
        self.assertEqual(code, 0, err)
        self.assertIn("told:", out)
        self.assertIn("fork", out)
        self.assertIn("child: b'0123456789'", out)
        self.assertTrue(out.strip().endswith("b'01'"), out)


class Attached(Exported):
    def test_the_running_node_reaches_the_peer_also_after_a_restart(self) -> None:
        with contextlib.ExitStack() as stack:
            near = stack.enter_context(attached_to(self.work, self.far))
            readers = [reader_id(), near.id]
            self.far.reload(sections(self.folder, readers))
            fs = fsspec.filesystem("anabranch", local=str(near.local))
            self.assertEqual(fs.cat_file("far/data/large"), LARGE)
            self.assertEqual(fs.ls("anabranch://far", detail=False), ["far/data"])
            with fs.open(f"anabranch://{self.far.id}/data/small") as file:
                self.assertEqual(file.read(), b"0123456789")
            self.assertIn("reads /data/large", self.far.log())
            near.end()
            near.start()
            self.assertEqual(fs.cat_file("far/data/small"), b"0123456789")
            # A right that is withdrawn holds for the next request.
            self.far.reload(sections(self.folder, [reader_id()]))
            with self.assertRaises((PermissionError, FileNotFoundError, AnabranchError)):
                fs.cat_file("far/data/small")
            self.far.reload(sections(self.folder, readers))


class Libraries(Exported):
    @unittest.skipIf(lacking("pandas"), f"not installed: {lacking('pandas')}")
    def test_pandas_reads_a_table(self) -> None:
        import pandas

        table = pandas.read_csv("anabranch://far/data/sub/a b.csv", storage_options=self.options)
        self.assertEqual(table["y"].tolist(), [2, 4])

    @unittest.skipIf(lacking("zarr", "numpy"), f"not installed: {lacking('zarr', 'numpy')}")
    def test_zarr_reads_chunks(self) -> None:
        import numpy
        import zarr

        values = numpy.arange(60_000, dtype="f4").reshape(200, 300)
        made = zarr.open_array(str(self.folder / "array.zarr"), mode="w", shape=values.shape, chunks=(50, 100), dtype="f4")
        made[:] = values
        store = zarr.storage.FsspecStore.from_url(
            "anabranch://far/data/array.zarr", storage_options={**self.options, "asynchronous": True}, read_only=True
        )
        array = zarr.open_array(store, mode="r")
        numpy.testing.assert_array_equal(array[60:160, 90:210], values[60:160, 90:210])
        numpy.testing.assert_array_equal(array[:], values)

    @unittest.skipIf(lacking("xarray", "scipy", "numpy"), f"not installed: {lacking('xarray', 'scipy', 'numpy')}")
    def test_xarray_opens_a_dataset(self) -> None:
        import numpy
        import xarray

        values = numpy.random.default_rng(7).normal(size=(3, 40, 50)).astype("f4")
        made = xarray.Dataset({"t": (("time", "y", "x"), values)}, coords={"time": [0, 1, 2]})
        made.to_netcdf(self.folder / "made.nc", engine="scipy")
        with fsspec.open("anabranch://far/data/made.nc", **self.options) as file:
            with xarray.open_dataset(file, engine="scipy") as dataset:
                numpy.testing.assert_array_equal(dataset["t"].isel(time=1).values, values[1])
                self.assertTrue(dataset.load().equals(made))

    @unittest.skipIf(data() is None, "there is no shared data (ANABRANCH_DATA)")
    @unittest.skipIf(lacking("xarray", "scipy", "numpy"), f"not installed: {lacking('xarray', 'scipy', 'numpy')}")
    def test_xarray_opens_a_recorded_dataset(self) -> None:
        import xarray

        folder = data()
        assert folder is not None
        recorded = folder / "media" / "eraint_uvz.nc"
        if not recorded.exists():
            self.skipTest(f"there is no {recorded.name} in the shared data")
        with contextlib.suppress(FileExistsError):
            os.link(recorded, self.folder / "era.nc")
        if not (self.folder / "era.nc").exists():
            (self.folder / "era.nc").write_bytes(recorded.read_bytes())
        warned = warnings.catch_warnings(action="ignore", category=xarray.SerializationWarning)
        with warned, fsspec.open("anabranch://far/data/era.nc", **self.options) as file:
            with xarray.open_dataset(file) as remote, xarray.open_dataset(recorded) as local:
                self.assertTrue(remote.load().identical(local.load()))
