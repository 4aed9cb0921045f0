"""Record sets: the reader, directories, the command, and manifests that the parser in Rust reads, too."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import unittest
from typing import Any

from anabranch.records import RecordsError, RecordSet, make_manifest
from anabranch.records.__main__ import main

from .recordfiles import Var, cdf, extents, opened, optional, overlaps, write
from .test_records_zarr import version_2

HAS_TOML = optional("tomllib") is not None or optional("tomli") is not None

#: Manifests and the parts that both parsers find in them; `python -m tests.test_records` writes them.
GOLDEN = os.path.join(os.path.dirname(__file__), "..", "..", "crates", "recordset", "tests", "manifests")


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def put(self, *files: str) -> None:
        for file in files:
            write(os.path.join(self.folder, *file.split("/")), file)

    def refused(self, *sources: str, **options: Any) -> str:
        with self.assertRaises(RecordsError) as caught:
            opened(self.folder, *sources, **options)
        return str(caught.exception)


class Reader(Folder):
    def read(self, **keys: Any) -> RecordSet:
        path = write(os.path.join(self.folder, "set.json"), keys)
        return RecordSet.open(path)

    def test_parts_are_files_ranges_and_extents(self) -> None:
        write(os.path.join(self.folder, "data"), bytes(range(100)))
        self.put("late/b.png")
        records = self.read(
            name="example",
            rate="25/s",
            component=[
                {"name": "fixed", "file": "data", "offset": 10, "size": 2, "stride": "4 B", "promise": 0.95, "deadline": "2 s"},
                {"name": "other", "optional": True, "rate": "1.5 Mbit/s"},
            ],
            record=[
                {"name": "a", "parts": {"other": {"file": "data", "extents": [[50, 2], [40, 3]]}}},
                {"name": "b", "parts": {"other": "late/b.png"}},
                {"name": "c"},
            ],
        )
        self.assertEqual((records.name, records.rate, len(records)), ("example", 25.0, 3))
        self.assertEqual([record["fixed"].read() for record in records], [b"\n\x0b", b"\x0e\x0f", b"\x12\x13"])
        self.assertEqual(records["a"]["other"].read(), bytes([50, 51, 40, 41, 42]))
        self.assertEqual(list(records[0]["other"].blocks(2)), [b"23", b"()", b"*"])
        self.assertEqual((records["b"]["other"].read(), records["b"]["other"].size), (b"late/b.png", 10))
        self.assertEqual((records[0]["other"].size, records[-1].name, [record.name for record in records[:2]]), (5, "c", ["a", "b"]))
        self.assertEqual(records["a"].read(), b"\n\x0b" + bytes([50, 51, 40, 41, 42]))
        self.assertTrue("c" in records and "d" not in records and "other" not in records["c"])
        self.assertIsNone(records["c"].get("other"))
        fixed = records.components[0]
        self.assertEqual((fixed.promise, fixed.deadline_s, records.components[1].rate_bps), (0.95, 2.0, 1.5e6))
        for missing in ("d", "fixed"):
            with self.assertRaises(KeyError):
                records[missing]
        with self.assertRaises(KeyError):
            records["c"]["other"]
        with self.assertRaises(IndexError):
            records[3]

    def test_records_by_pattern(self) -> None:
        self.put("x/07-seven.png")
        component = {"name": "image", "file": "x/{n:02}-{name}.png"}
        records = self.read(component=[component, {"name": "p", "file": "{n}", "size": 3}], records={"count": 1_000_000, "name": "{n:06}"})
        self.assertEqual((len(records), records.name), (1_000_000, "set"))
        self.assertEqual(records["000042"].number, 42)
        self.assertEqual(records[7]["image"].file, "x/07-000007.png")
        self.assertEqual(records[7]["p"].extents, ((0, 3),))
        self.assertFalse("42" in records or "1000000" in records)

    def test_null_is_no_value(self) -> None:
        component = {"name": "a", "file": "f", "size": 4, "offset": None, "stride": None, "rate": None, "promise": None, "deadline": None}
        records = self.read(name=None, rate=None, component=[component], records={"count": 1, "name": "x"}, record=[])
        self.assertEqual((records.name, records["x"].number, records.rate), ("set", 0, None))
        for wrong in ({"optional": None}, {"name": None}):
            with self.assertRaises(RecordsError):
                self.read(component=[{**component, **wrong}])

    def test_what_cannot_be_read_is_an_error(self) -> None:
        write(os.path.join(self.folder, "data"), bytes(10))
        records = self.read(component=[{"name": "a", "file": "data", "size": 8}, {"name": "b", "file": "{n}"}], records={"count": 2})
        self.assertEqual(len(records[0]["a"].read()), 8)
        with self.assertRaisesRegex(RecordsError, "record '1', 'a': 'data' ends before byte 16"):
            records[1]["a"].read()
        with self.assertRaisesRegex(RecordsError, "record '1', 'b': '1' cannot be read: No such file"):
            records[1]["b"].read()
        with self.assertRaisesRegex(RecordsError, "cannot be read"):
            self.assertIsNone(records[1]["b"].size)

    def test_manifests_are_refused_in_words(self) -> None:
        component = {"name": "a", "file": "{n}"}
        strided = {"name": "a", "file": "f", "size": 4}
        cases: list[tuple[dict[str, Any], str]] = [
            ({}, r"no \[\[component\]\]"),
            ({"component": [component], "colour": 1}, "unknown key 'colour'"),
            ({"component": [{**component, "optionl": True}]}, "unknown key 'optionl'"),
            ({"component": [{**component, "optional": 1}]}, "type bool"),
            ({"component": [component, component]}, "two of this name"),
            ({"component": [{**component, "file": "../x{n}"}]}, "does not reach beyond its directory"),
            ({"component": [{**component, "file": "/x{n}"}]}, "relative"),
            ({"component": [{**component, "file": "a:{n}"}]}, "obeyed instead of shown"),
            ({"component": [{**component, "file": "{x}"}]}, "unknown; there are"),
            ({"component": [{**component, "offset": 3}]}, "offset and stride are for one file"),
            ({"component": [{"name": "a", "file": "f"}]}, "their size is needed"),
            ({"component": [{"name": "a", "size": 3}]}, "a place, but no file"),
            ({"component": [{**strided, "size": -1}]}, "number of bytes"),
            ({"component": [{**strided, "size": True}]}, "number of bytes"),
            ({"component": [{**strided, "size": "5"}]}, "number of bytes"),
            ({"component": [{**strided, "size": 1 << 51}]}, "up to 1024 TiB"),
            ({"component": [{**strided, "promise": 95}]}, "between 0 and 1"),
            ({"component": [{**strided, "promise": 0.9}]}, "neither it nor the set has a rate"),
            ({"component": [{**strided, "rate": "20 MB/s"}]}, "10 Mbit/s"),
            ({"component": [{**strided, "deadline": "2"}]}, "150 ms"),
            ({"component": [strided], "rate": "25 Hz"}, "such as 25/s"),
            ({"component": [strided], "name": "a/b"}, "it has a '/'"),
            ({"component": [strided], "records": {"count": 1 << 40}}, "up to 100000000 records"),
            ({"component": [strided], "records": {"count": 2, "name": "x"}}, "all records would have this name"),
            ({"component": [strided], "records": {"count": 2, "name": "{name}"}}, "cannot contain itself"),
            ({"component": [strided], "records": {}}, "count is missing"),
            ({"component": [{**strided, "stride": 1 << 50}], "records": {"count": 1 << 20}}, "than a file can"),
            ({"component": [strided], "records": {"count": 1}, "record": [{"name": "x"}]}, "give one of them"),
            ({"component": [strided], "record": [{"name": "x"}, {"name": "x"}]}, "two of this name, number 1 and 2"),
            ({"component": [{"name": "a"}], "record": [{"name": "x"}]}, "its component has no file"),
            ({"component": [strided], "record": [{"name": "x", "parts": {"b": "f"}}]}, "no component has this name; there are a"),
            ({"component": [strided], "record": [{"name": "x", "parts": {"a": {"file": "f", "offset": 3}}}]}, "no size; add size"),
            ({"component": [strided], "record": [{"name": "x", "parts": {"a": {"file": "f", "extents": [[1, -1]]}}}]}, "pair of offset"),
            (
                {"component": [strided], "record": [{"name": "x", "parts": {"a": {"file": "f", "extents": [[1 << 63, 1]]}}}]},
                "than a file can",
            ),
            (
                {"component": [strided], "record": [{"name": "x", "parts": {"a": {"file": "f", "extents": [], "size": 1}}}]},
                "give one of them",
            ),
            ({"component": [strided], "record": [7]}, "a table of keys"),
        ]
        for keys, words in cases:
            with self.assertRaisesRegex(RecordsError, words):
                self.read(**keys)
        for name, data, words in [
            ("set.json", b"{", "line 1: "),
            ("set.json", b"[" * 100_000, "nested too deeply"),
            ("set.json", b"\xff", "not UTF-8"),
            ("set.yaml", b"", "ends in .toml or .json"),
        ]:
            with self.assertRaisesRegex(RecordsError, words):
                RecordSet.open(write(os.path.join(self.folder, name), data))
        with self.assertRaisesRegex(RecordsError, "cannot be read: No such file"):
            RecordSet.open(os.path.join(self.folder, "none.json"))

    @unittest.skipIf(not HAS_TOML, "needs tomli")
    def test_toml_has_the_same_keys(self) -> None:
        text = 'rate = "2/s"\n[[component]]\nname = "a"\nfile = "f"\nsize = "1 kB"\n[records]\ncount = 2\n'
        path = write(os.path.join(self.folder, "set.toml"), text)
        self.assertEqual(RecordSet.open(path, directory="/elsewhere")[1]["a"].path, "/elsewhere/f")
        with self.assertRaisesRegex(RecordsError, "line 1"):
            RecordSet.open(write(path, "name 3"))


class Directories(Folder):
    def test_files_of_a_stem_are_a_record(self) -> None:
        for number in (1, 2, 10):
            self.put(f"images/t{number}.png", f"thumbs/t{number}.png", f"t{number}.nii.gz")
        self.put(".hidden", ".git/config")
        records = opened(self.folder, ".")
        self.assertEqual([record.name for record in records], ["t1", "t2", "t10"])
        self.assertEqual({component.name for component in records.components}, {"images", "nii.gz", "thumbs"})
        self.assertEqual(records["t2"]["thumbs"].read(), b"thumbs/t2.png")
        self.assertEqual(len(extents(records)), 9)
        text = make_manifest([self.folder], directory=self.folder)
        self.assertIn('file = "images/{name}.png"', text)
        self.assertNotIn("parts", text)

    def test_numbers_need_no_list(self) -> None:
        self.put(*(f"frames/f{number:03}.{ending}" for number in range(12) for ending in ("png", "json")))
        text = make_manifest(
            [os.path.join(self.folder, "frames")], directory=self.folder, components=["json", "png,promise=0.9"], rate="5/s"
        )
        self.assertIn('[records]\ncount = 12\nname = "f{n:03}"', text)
        records = opened(self.folder, "frames")
        self.assertEqual(records["f011"]["png"].read(), b"frames/f011.png")

    def test_a_component_that_some_records_lack_is_optional(self) -> None:
        self.put("a.png", "b.png", "b.json")
        records = opened(self.folder, ".")
        self.assertEqual([(component.name, component.is_optional) for component in records.components], [("png", False), ("json", True)])
        self.assertEqual([list(record) for record in records], [["png"], ["png", "json"]])
        self.assertIn("component 'json': record 'a' has no such file", self.refused(".", components=["png", "json"]))
        self.assertEqual(len(opened(self.folder, ".", components=["png", "json,optional"])), 2)

    def test_patterns_choose_files(self) -> None:
        for number in (1, 2):
            self.put(f"run{number}/low.png", f"run{number}/full.png", f"note-{number}.txt")
        records = opened(self.folder, ".", components=["full=run*/full.png", "low=run*/low.png", "note=note-*.txt"])
        self.assertEqual([record.name for record in records], ["1", "2"])
        self.assertEqual(records["2"]["low"].read(), b"run2/low.png")
        self.assertIn("one '*'", self.refused(".", components=["a=**.png"]))
        self.assertIn("no variable and no files are like 'x*.png'", self.refused(".", components=["a=x*.png"]))
        self.assertIn("no variable and no files are like 'image'; there are txt, run1, run2", self.refused(".", components=["image"]))
        self.assertIn("in the components 'a' and 'b'", self.refused(".", components=["a=note-*.txt", "b=note-*.txt"]))

    def test_names_that_cannot_be_are_refused(self) -> None:
        self.put("10:30.png")
        self.assertIn("the record's name would be '10:30'", self.refused("."))
        os.rename(os.path.join(self.folder, "10:30.png"), os.path.join(self.folder, "{n}.png"))
        self.assertEqual(opened(self.folder, ".")["{n}"]["png"].read(), b"10:30.png")
        os.mkdir(os.path.join(self.folder, "empty"))
        self.assertIn("no files to make records of", self.refused("empty"))
        self.assertIn("there is no such file", self.refused("nothing"))
        self.assertIn("not beneath", self.refused("../elsewhere"))

    def test_files_and_directories_side_by_side(self) -> None:
        values = [bytes([number] * 8) for number in range(3)]
        write(os.path.join(self.folder, "set.nc"), cdf(1, {"time": 0}, {"a": Var("double", ["time"], values)}))
        self.put("images/x.png", "images/y.png", "images/z.png")
        records = opened(self.folder, "set.nc", "images", components=["a", "image=*.png"])
        self.assertEqual([component.name for component in records.components], ["header", "a", "image"])
        self.assertEqual([record.name for record in records], ["x", "y", "z"])
        self.assertEqual(records["y"]["a"].read() + records["y"]["image"].read(), values[1] + b"images/y.png")
        # What is named is no part of the directory above it.
        self.put("w/x.txt", "w/y.txt", "w/z.txt")
        records = opened(self.folder, ".", "set.nc", "images")
        self.assertEqual([component.name for component in records.components], ["header", "a", "w", "images"])
        self.assertEqual(overlaps(records), [])
        self.put("images/w.png")
        self.assertIn("different numbers of records: 'a' has 3 records, 'png' has 4", self.refused("set.nc", "images"))


class Command(Folder):
    def run_main(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
        return code, out.getvalue(), err.getvalue()

    def test_the_manifest_is_written_beside_its_files(self) -> None:
        self.put("data/a0.bin", "data/a1.bin")
        path = os.path.join(self.folder, "set.json")
        data = os.path.join(self.folder, "data")
        code, out, err = self.run_main(data, "-o", path, "--name", "pair", "--rate", "2/s", "--component", "bin,promise=0.9,deadline=1 s")
        self.assertEqual((code, out, err), (0, "", "2 records of bin\n"))
        records = RecordSet.open(path)
        self.assertEqual((records.name, records["a1"]["bin"].read()), ("pair", b"data/a1.bin"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["data", "set.json"])
        # Manifests are no part of the set, even those of other names.
        self.put("records.toml")
        code, _, err = self.run_main(self.folder, "-o", path)
        self.assertEqual((code, err), (0, "2 records of data\n"))
        code, out, _ = self.run_main(data, "--directory", data)
        self.assertEqual(code, 0)
        self.assertIn('file = "{name}.bin"', out)

    def test_errors_are_one_line_and_change_nothing(self) -> None:
        self.put("data/a.bin")
        path = write(os.path.join(self.folder, "set.toml"), "old")
        data = os.path.join(self.folder, "data")
        for arguments in [
            ["none", "-o", path],
            [data, "-o", os.path.join(self.folder, "set.txt")],
            [data, "-o", os.path.join(self.folder, "none", "set.toml")],
            [data, "-o", path, "--rate", "fast"],
            [data, "-o", path, "--per-record", "0"],
            [data, "-o", path, "--component", "bin,promise=2"],
            [data, "-o", path, "--component", "bin,promise=0.5"],
            [data, "-o", path, "--name", "a/b"],
        ]:
            code, out, err = self.run_main(*arguments)
            self.assertEqual((code, out, err.count("\n")), (1, "", 1), err)
            self.assertTrue(err.startswith("anabranch.records: "), err)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(sorted(os.listdir(self.folder)), ["data", "set.toml"])


def golden() -> dict[str, str]:
    """Manifests by the names of their files, of sources whose bytes this file states."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = {name: [bytes([number] * size) for number in range(12)] for name, size in (("t", 6), ("time", 8), ("u", 24))}
        variables = {
            "lat": Var("float", ["lat"], bytes(12)),
            "t": Var("short", ["time", "lat"], rows["t"]),
            "time": Var("double", ["time"], rows["time"]),
            "u": Var("float", ["time", "lat", "lon"], rows["u"]),
        }
        classic = write(os.path.join(folder, "era", "classic.nc"), cdf(2, {"time": 0, "lat": 3, "lon": 2}, variables))
        chosen = ["header", "numbers=[tu],promise=0.95,deadline=2 s", "time,rate=64 kbit/s"]
        for number in range(3):
            write(os.path.join(folder, "images", f"jour-{number} é.png"), b"png")
            write(os.path.join(folder, "thumbs", f"jour-{number} é.png"), b"small")
        write(os.path.join(folder, "thumbs", "jour-3 {é}.png"), b"small")
        write(os.path.join(folder, "w.zarr", ".zarray"), version_2([12, 4], [4, 2]))
        for chunk in ("0.0", "0.1", "1.0", "1.1", "2.0", "2.1"):
            write(os.path.join(folder, "w.zarr", chunk), b"chunk")
        images = [os.path.join(folder, "images"), os.path.join(folder, "thumbs")]
        cases: dict[str, tuple[list[str], dict[str, Any]]] = {
            "classic": ([classic], {"rate": "25/s", "components": chosen}),
            "strided": ([classic], {"name": "strided", "header": False}),
            "rows": ([classic], {"per_record": 5}),
            "images": (images, {}),
            "zarr": ([os.path.join(folder, "w.zarr")], {}),
        }
        for name, (sources, options) in cases.items():
            for ending in ("toml", "json"):
                found[f"{name}.{ending}"] = make_manifest(sources, directory=folder, json=ending == "json", **options)
    return found


def listing(text: str, *, is_json: bool) -> str:
    """All parts of a manifest: a line for each, with record, component, file, and extents or `all`."""
    records = RecordSet(text, directory=".", name="golden", is_json=is_json)
    lines = []
    for record in records:
        for component in record:
            part = record[component]
            places = "all" if part.extents is None else " ".join(f"{offset}+{size}" for offset, size in part.extents)
            lines.append(f"{record.name}\t{component}\t{part.file}\t{places}\n")
    return "".join(lines)


@unittest.skipUnless(os.path.isdir(GOLDEN), "the sources of the crate are not there")
class Golden(unittest.TestCase):
    def test_manifests_are_as_the_parser_in_rust_reads_them(self) -> None:
        for name, text in golden().items():
            stem, ending = name.split(".")
            with self.subTest(name=name):
                with open(os.path.join(GOLDEN, name), encoding="utf-8") as file:
                    self.assertEqual(file.read(), text)
                if ending == "toml" and not HAS_TOML:
                    continue
                with open(os.path.join(GOLDEN, f"{stem}.parts"), encoding="utf-8") as file:
                    self.assertEqual(file.read(), listing(text, is_json=ending == "json"))

    def test_both_parsers_refuse_the_same_texts(self) -> None:
        with open(os.path.join(GOLDEN, "refused.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertGreater(len(lines), 10)
        for line in lines:
            with self.subTest(line=line), self.assertRaises(RecordsError):
                RecordSet(line, directory=".", name="golden", is_json=True)

    def test_nothing_is_in_two_parts(self) -> None:
        for name, text in golden().items():
            if name.endswith(".json") and not name.startswith(("images", "zarr")):
                self.assertEqual(overlaps(RecordSet(text, directory=".", name="golden", is_json=True)), [])


if __name__ == "__main__":
    for name, text in golden().items():
        write(os.path.join(GOLDEN, name), text)
        if name.endswith(".json"):
            write(os.path.join(GOLDEN, name.replace(".json", ".parts")), listing(text, is_json=True))
