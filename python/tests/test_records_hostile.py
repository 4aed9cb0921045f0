"""Manifests from files that are damaged, strange or hostile: one line that says what to do, and nothing is changed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from anabranch.records import RecordsError, RecordSet, make_manifest
from anabranch.records import _build as building
from anabranch.records.__main__ import main

from .recordfiles import Var, cdf, opened, optional, write

np, h5py = map(optional, ("numpy", "h5py"))


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def run_main(self, source: str, *more: str) -> tuple[int, list[str]]:
        """Exit code and lines of standard error of the command."""
        out, err = io.StringIO(), io.StringIO()
        arguments = [self.path(source), "-o", self.path("records.json"), *more]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
        self.assertEqual(out.getvalue(), "")
        return code, err.getvalue().splitlines()

    def refused(self, source: str, words: str, *more: str) -> None:
        """The command fails with one line, which has the words, and the manifest of before is there."""
        write(self.path("records.json"), "before")
        code, lines = self.run_main(source, *more)
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertRegex(lines[0], words)
        self.assertTrue(lines[0].startswith("anabranch.records: ") and lines[0].isprintable(), lines)
        with open(self.path("records.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".manifest")], [])

    def taken(self, source: str, *more: str) -> RecordSet:
        code, lines = self.run_main(source, *more)
        self.assertEqual(code, 0, lines)
        return RecordSet.open(self.path("records.json"))


class Files(Folder):
    def test_what_is_no_such_file(self) -> None:
        for data, words in [
            (b"", "neither netCDF nor HDF5; of other files, name their directory"),
            (b"a,b\n" * 100, "neither netCDF nor HDF5"),
            (b"CDF", "damaged or incomplete"),
            (b"CDF\x09" + bytes(50), "not a netCDF classic file of version 1, 2 or 5"),
        ]:
            write(self.path("set.nc"), data)
            self.refused("set.nc", words)
        os.mkfifo(self.path("pipe"))
        self.refused("pipe", "it is not a file")
        os.symlink("loop", self.path("loop"))
        self.refused("loop", "there is no such file")
        self.refused("a\0b", "obeyed instead of shown")
        self.refused("a\udcff", "obeyed instead of shown")

    def classic(self) -> bytes:
        rows = [bytes([number] * 8) for number in range(6)]
        return cdf(1, {"time": 0}, {"a": Var("double", ["time"], rows), "b": Var("double", ["time"], rows)})

    def test_truncated_netcdf(self) -> None:
        whole = self.classic()
        for length in range(len(whole)):
            write(self.path("set.nc"), whole[:length])
            self.refused("set.nc", "incomplete|neither netCDF nor HDF5")

    def test_a_file_that_changes_while_its_manifest_is_made(self) -> None:
        path = write(self.path("set.nc"), self.classic())
        real = building._arrays

        def append(*arguments: Any) -> set[str]:
            found = real(*arguments)
            with open(path, "ab") as file:
                file.write(bytes(16))
            return found

        def vanish(*arguments: Any) -> set[str]:
            found = real(*arguments)
            os.unlink(path)
            return found

        for change in (append, vanish):
            with mock.patch.object(building, "_arrays", change):
                self.refused("set.nc", "written to while its manifest was made; run the command again")

    def test_a_file_that_changes_after_its_manifest_was_made(self) -> None:
        path = write(self.path("set.nc"), self.classic())
        records = self.taken("set.nc")
        with open(path, "r+b") as file:
            file.truncate(os.stat(path).st_size - 8)
        self.assertEqual(records[0]["a"].read(), bytes(8))
        with self.assertRaisesRegex(RecordsError, "record '5', 'b': 'set.nc' ends before byte .*; it is incomplete"):
            records[5]["b"].read()
        os.unlink(path)
        with self.assertRaisesRegex(RecordsError, "record '0', 'a': 'set.nc' cannot be read: No such file"):
            records[0]["a"].read()

    def test_names_of_variables(self) -> None:
        rows = [bytes(8)] * 3
        for name in ("a:b", "..", "\x1b[2J", "new\nline", "right\u202eto left"):
            write(self.path("set.nc"), cdf(1, {"time": 0}, {name: Var("double", ["time"], rows), "good": Var("double", ["time"], rows)}))
            self.refused("set.nc", r"cannot be the name of a component: .*; give it another one with --component NAME=PATTERN")
            records = self.taken("set.nc", "--component", "good", "--component", "odd=*[!d]")
            self.assertEqual(records[2]["odd"].read(), bytes(8))
        self.refused("set.nc", "component 'a/b': it has a '/'; write a.b=a/b", "--component", "a/b")


class Zarr(Folder):
    META: dict[str, Any] = {"zarr_format": 2, "shape": [4], "chunks": [1], "dtype": "<f4"}

    def array(self, **more: Any) -> None:
        write(self.path("z.zarr", ".zarray"), {**self.META, **more})

    def test_metadata_that_is_none(self) -> None:
        for text, words in [
            ("", "is not JSON"),
            ("[]", "is not a JSON object"),
            ("{}", "it has the format None; 2 and 3 are supported"),
            ("[" * 100_000, "nested too deeply"),
            ('{"zarr_format":2,"shape":[' + "9" * 6000 + "]}", "is not JSON|not a list"),
            (json.dumps({**self.META, "shape": [True]}), "not a list of up to 64 lengths"),
            (json.dumps({**self.META, "shape": [-1]}), "not a list of up to 64 lengths"),
            (json.dumps({**self.META, "shape": [1 << 62]}), "up to 100000000 records are possible"),
            (json.dumps({**self.META, "shape": [], "chunks": []}), "it has no arrays, so there is nothing to make records of"),
            (json.dumps({**self.META, "shape": [0]}), "has no steps, so there are no records yet"),
        ]:
            write(self.path("z.zarr", ".zarray"), text)
            self.refused("z.zarr", words)

    def test_chunks_that_are_no_files(self) -> None:
        self.array()
        for chunk in range(4):
            write(self.path("z.zarr", str(chunk)), b"data")
        self.assertEqual(self.taken("z.zarr")[3]["z.zarr"].read(), b"data")
        missing = "there is no file for chunk 2; write it, or make the component optional"
        for make in (os.mkdir, os.mkfifo, lambda path: os.symlink("nowhere", path), lambda path: os.symlink("2", path), None):
            path = self.path("z.zarr", "2")
            (os.rmdir if os.path.isdir(path) else os.unlink)(path)
            if make is None:
                write(path, b"data")
                continue
            make(path)
            self.refused("z.zarr", missing)
        # A link to a directory above is not followed.
        os.symlink("..", self.path("z.zarr", "up"))
        self.assertEqual(len(self.taken("z.zarr")), 4)
        write(self.path("z.zarr", "\udcff"), b"x")
        self.refused("z.zarr", "obeyed instead of shown")
        self.assertEqual(len(self.taken("z.zarr", "--no-header")), 4)


@unittest.skipIf(h5py is None, "needs h5py and NumPy")
class Hdf5(Folder):
    def write(self, fill: Callable[[Any], None]) -> None:
        with h5py.File(self.path("set.h5"), "w") as file:
            file["good"] = np.arange(8).reshape(4, 2)
            fill(file)

    def test_truncated(self) -> None:
        self.write(lambda file: None)
        with open(self.path("set.h5"), "rb") as file:
            whole = file.read()
        for length in [*range(0, 100, 7), *range(100, len(whole), 101), len(whole) - 1]:
            write(self.path("set.h5"), whole[:length])
            self.refused("set.h5", "incomplete|neither netCDF nor HDF5")

    def test_links_that_lead_in_circles_or_out(self) -> None:
        def fill(file: Any) -> None:
            group = file.create_group("group")
            group["root"] = file["/"]
            group["itself"] = group
            group["again"] = file["good"]
            for name, to in (("loop", "/loop"), ("self", "/"), ("dangling", "/nowhere"), ("alias", "/good")):
                file[name] = h5py.SoftLink(to)
            file["out"] = h5py.ExternalLink("/etc/passwd", "/a")
            file["me"] = h5py.ExternalLink("set.h5", "/")

        self.write(fill)
        # An array has the first of its names.
        records = self.taken("set.h5")
        self.assertEqual([component.name for component in records.components], ["header", "good"])
        for name in ("alias", "dangling", "out", "group.again"):
            self.refused("set.h5", f"component '{name}': no source has a variable like '{name}'; there are good$", "--component", name)

    def test_groups_that_are_nested_deeply(self) -> None:
        def fill(depth: int) -> Callable[[Any], None]:
            def nest(file: Any) -> None:
                for _ in range(depth):
                    file = file.create_group("g")
                file["a"] = np.arange(4)

            return nest

        self.write(fill(200))
        self.assertEqual(len(self.taken("set.h5", "--component", "deep=g/*", "--component", "good")), 4)
        self.write(fill(300))
        self.refused("set.h5", "nested more than 256 deep; move the arrays up")

    def test_arrays_without_values(self) -> None:
        def fill(file: Any) -> None:
            file["null"] = h5py.Empty("<f4")
            file.create_dataset("no_rows", (0, 3), "<f4")
            file.create_dataset("no_columns", (4, 0), "<f4")
            file["single"] = 3

        self.write(fill)
        records = self.taken("set.h5")
        self.assertEqual([component.name for component in records.components], ["header", "good", "no_columns"])
        self.assertEqual((records[1]["no_columns"].read(), len(records[1]["good"].read())), (b"", 16))
        for name, words in [
            ("null", "no source has a variable like 'null'; there are good, no_columns, no_rows"),
            ("single", "no source has a variable like 'single'"),
            ("no_rows", r"its dimension without a name \(0\) has no steps, so there are no records yet"),
        ]:
            self.refused("set.h5", words, "--component", name)

    def test_types(self) -> None:
        types = {
            "reference": h5py.ref_dtype,
            "region": h5py.regionref_dtype,
            "text": h5py.string_dtype(),
            "inner": np.dtype([("a", "<i4"), ("b", h5py.vlen_dtype("<i4"))]),
        }

        def fill(file: Any) -> None:
            for name, kind in types.items():
                file.create_dataset(name, (4,), kind)
            file["named"] = np.dtype("<f8")
            file["compound"] = np.zeros(4, [("a", "<i4"), ("b", "<f8", (2, 2))])
            file["opaque"] = np.zeros(4, "V7")
            file["option"] = np.zeros(4, h5py.enum_dtype({"no": 0, "yes": 1}, "i1"))

        self.write(fill)
        for name in types:
            self.refused("set.h5", f"variable '{name}': its values have variable lengths.*name the other variables", "--component", name)
        self.refused("set.h5", "no source has a variable like 'named'", "--component", "named")
        names = ["compound", "opaque", "option"]
        records = self.taken("set.h5", *(word for name in names for word in ("--component", name)))
        self.assertEqual([records[3][name].size for name in names], [36, 7, 1])

    def test_names(self) -> None:
        for name in (b"..", b"a:b", b"a\\b", b"\x1b[2J", b"new\nline", "z\u202ez".encode(), b"\xff", b"\xed\xa0\x80", b"e" * 300):

            def fill(file: Any, name: bytes = name) -> None:
                file.create_dataset(name, data=np.arange(4))

            self.write(fill)
            self.refused("set.h5", "cannot be the name of a component: .*; give it another one with --component NAME=PATTERN")
            self.assertEqual(len(self.taken("set.h5", "--component", "good")), 4)
            self.assertEqual(self.taken("set.h5", "--component", "odd=[!g]*")[3]["odd"].size, 8)

    def test_names_that_become_the_same(self) -> None:
        def fill(file: Any) -> None:
            file["a.b"] = np.arange(4)
            file["a/b"] = np.arange(4) + 4

        self.write(fill)
        both = "variable '.*': '.*' would be the same component, a.b; name them with --component"
        self.refused("set.h5", both)
        self.refused("set.h5", both, "--component", "*")
        records = self.taken("set.h5", "--component", "one=a.b", "--component", "two=a/b")
        self.assertEqual([records[1][name].read()[0] for name in ("one", "two")], [1, 5])

    def test_a_dimension_with_an_odd_name(self) -> None:
        def fill(file: Any) -> None:
            file["t"] = np.arange(4)
            file["t"].attrs["CLASS"] = np.bytes_("DIMENSION_SCALE")
            file["t"].attrs["NAME"] = h5py.Empty("S5")
            file["good"].dims[0].label = "\x1b[31m"

        self.write(fill)
        self.assertEqual(len(self.taken("set.h5")), 4)
        self.refused("set.h5", r"no array has the first dimension 'x'; there are \\u001b\[31m \(4\)", "--along", "x")


class Library(Folder):
    def test_the_function_raises_the_same_errors(self) -> None:
        path = write(self.path("set.nc"), b"CDF\x01")
        with self.assertRaisesRegex(RecordsError, "incomplete"):
            make_manifest([path], directory=self.folder)
        with self.assertRaisesRegex(RecordsError, "incomplete"):
            opened(self.folder, "set.nc")


if __name__ == "__main__":
    unittest.main()
