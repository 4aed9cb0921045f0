"""Record sets of Zarr directories, against files written by hand and the package zarr."""

from __future__ import annotations

import os
import random
import tempfile
import unittest
from typing import Any

from anabranch.records import RecordsError

from .recordfiles import copied, opened, optional, overlaps, write

np, zarr = optional("numpy"), optional("zarr")


def version_2(shape: list[int], chunks: list[int], **more: Any) -> dict[str, Any]:
    """Metadata of an array of version 2."""
    meta = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "order": "C", "fill_value": 0}
    return {**meta, "compressor": None, "filters": None, **more}


def version_3(shape: list[int], chunks: list[int], **more: Any) -> dict[str, Any]:
    """Metadata of an array of version 3."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": 0,
        **more,
    }


class Zarr(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def put(self, file: str, data: Any) -> None:
        write(os.path.join(self.folder, *file.split("/")), data)

    def refused(self, **options: Any) -> str:
        with self.assertRaises(RecordsError) as caught:
            opened(self.folder, "set.zarr", **options)
        return str(caught.exception)

    def test_chunks_of_version_2_are_files_of_records(self) -> None:
        self.put("set.zarr/.zgroup", {"zarr_format": 2})
        self.put("set.zarr/u/.zarray", version_2([5, 4, 6], [2, 4, 3]))
        self.put("set.zarr/u/.zattrs", {"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]})
        self.put("set.zarr/lat/.zarray", version_2([4], [4]))
        self.put("set.zarr/lat/.zattrs", {"_ARRAY_DIMENSIONS": ["lat"]})
        self.put("set.zarr/lat/0", b"latitude")
        for row in range(3):
            for column in range(2):
                self.put(f"set.zarr/u/{row}.0.{column}", f"u {row} {column}".encode())
        records = opened(self.folder, "set.zarr")
        header = ["header..zgroup", "header.lat..zarray", "header.lat..zattrs", "header.lat.0", "header.u..zarray", "header.u..zattrs"]
        self.assertEqual([component.name for component in records.components], [*header, "u.0.0", "u.0.1"])
        self.assertEqual([record["u.0.1"].read() for record in records], [b"u 0 1", b"u 1 1", b"u 2 1"])
        self.assertEqual([record["u.0.0"].file for record in records], [f"set.zarr/u/{row}.0.0" for row in range(3)])
        self.assertEqual(list(records[2]), ["u.0.0", "u.0.1"])
        self.assertEqual(overlaps(records), [])

    def test_chunks_of_version_3_are_files_of_records(self) -> None:
        self.put("set.zarr/zarr.json", {"zarr_format": 3, "node_type": "group"})
        self.put("set.zarr/deep/u/zarr.json", version_3([3, 4], [1, 4], dimension_names=["time", None]))
        self.put("set.zarr/v/zarr.json", version_3([3, 4], [1, 4], chunk_key_encoding={"name": "v2"}, dimension_names=["time", "x"]))
        for row in range(3):
            self.put(f"set.zarr/deep/u/c/{row}/0", f"u {row}".encode())
            self.put(f"set.zarr/v/{row}.0", f"v {row}".encode())
        records = opened(self.folder, "set.zarr", header=False)
        self.assertEqual([component.name for component in records.components], ["deep.u", "v"])
        self.assertEqual([record.read() for record in records], [b"u 0v 0", b"u 1v 1", b"u 2v 2"])
        self.assertEqual([record["deep.u"].file for record in records], [f"set.zarr/deep/u/c/{row}/0" for row in range(3)])
        records = opened(self.folder, "set.zarr", along="time", components=["wind=v,rate=1 Mbit/s", "header"])
        self.assertEqual([component.name for component in records.components][0], "wind")

    def test_a_single_array_is_a_set(self) -> None:
        self.put("set.zarr/.zarray", version_2([3, 2], [1, 2], dimension_separator="/"))
        for row in range(3):
            self.put(f"set.zarr/{row}/0", bytes([row]))
        records = opened(self.folder, "set.zarr")
        self.assertEqual([component.name for component in records.components], ["header", "set.zarr"])
        self.assertEqual([record["set.zarr"].read() for record in records], [b"\0", b"\1", b"\2"])

    def test_the_set_may_be_the_directory_itself(self) -> None:
        self.put("zarr.json", version_3([2], [1]))
        for row in range(2):
            self.put(f"c/{row}", bytes([row]))
        self.put("records.toml", b"")
        self.put(".anabranch-records", b"")
        records = opened(self.folder, ".")
        self.assertEqual([component.name for component in records.components][0], "header")
        self.assertEqual([record[records.components[1].name].file for record in records], ["c/0", "c/1"])

    def test_chunks_that_were_never_written(self) -> None:
        self.put("set.zarr/.zarray", version_2([3], [1]))
        self.put("set.zarr/0", b"0")
        self.put("set.zarr/2", b"2")
        self.assertIn("there is no file for chunk 1", self.refused())
        records = opened(self.folder, "set.zarr", components=["a=set.zarr,optional"])
        self.assertEqual([("a" in record) for record in records], [True, False, True])

    def test_arrays_with_other_chunks_are_in_the_header_or_refused(self) -> None:
        self.put("set.zarr/.zgroup", {"zarr_format": 2})
        self.put("set.zarr/u/.zarray", version_2([4, 2], [1, 2]))
        self.put("set.zarr/time/.zarray", version_2([4], [4]))
        self.put("set.zarr/time/0", b"time")
        for row in range(4):
            self.put(f"set.zarr/u/{row}.0", bytes([row]))
        records = opened(self.folder, "set.zarr")
        self.assertEqual(records[0]["header.time.0"].read(), b"time")
        self.put("set.zarr/v/.zarray", version_2([4, 2], [2, 2]))
        self.assertIn("variable 'u': 1 of its rows are one piece, but a record has 2", self.refused())

    def test_bad_metadata_is_refused_in_words(self) -> None:
        self.put("set.zarr/.zgroup", {"zarr_format": 2})
        for meta, words in [
            ("{", "is not JSON"),
            ("[" * 100_000, "is not JSON"),
            ("[]", "is not a JSON object"),
            (version_2([3, 2], [1]), "its shape has 2 dimensions, its chunks have 1"),
            (version_2([3], [0]), "its shape of chunks is not a list"),
            (version_2([-3], [1]), "its shape is not a list"),
            (version_2([True], [1]), "its shape is not a list"),
            ({**version_2([1], [1]), "shape": "many"}, "its shape is not a list"),
            (version_2([1 << 62], [1]), "rows of chunks; up to 100000000"),
            (version_2([1, 1 << 62], [1, 1]), "a record would have"),
            (version_2([0, 2], [1, 2]), "no steps"),
            (version_2([2], [1], dimension_separator="-"), "the separator '-'"),
            (version_2([2], [1], zarr_format=9), "it has the format 9"),
        ]:
            self.put("set.zarr/a/.zarray", meta)
            message = self.refused()
            self.assertIn(words, message)
            self.assertIn("'set.zarr'", message)
        os.unlink(os.path.join(self.folder, "set.zarr", "a", ".zarray"))
        for meta, words in [
            (version_3([2], [1], chunk_grid={"name": "rectangular"}), "not regular"),
            (version_3([2], [1], chunk_grid="regular"), "not regular"),
            (version_3([2], [1], chunk_key_encoding={"name": "odd"}), "encoded as 'odd'"),
            (version_3([2], [1], storage_transformers=[{}]), "storage transformers"),
        ]:
            self.put("set.zarr/a/zarr.json", meta)
            self.assertIn(words, self.refused())

    def test_mutated_metadata_is_read_or_refused(self) -> None:
        seed = int(os.environ.get("ANABRANCH_SEED", "1"))
        source = random.Random(seed)
        values: list[Any] = [None, -1, 0, 1, 1 << 70, "x", [], {}, [1], True, 0.5, [[]], {"name": "regular"}]
        for turn in range(500):
            meta = source.choice((version_2, version_3))([3], [1])
            for _ in range(source.randint(1, 2)):
                meta[source.choice(list(meta))] = source.choice(values)
            self.put("set.zarr/zarr.json" if "node_type" in meta else "set.zarr/.zarray", meta)
            with self.subTest(seed=seed, turn=turn):
                try:
                    opened(self.folder, "set.zarr")
                except RecordsError:
                    pass

    @unittest.skipIf(zarr is None, "needs zarr and NumPy")
    def test_directories_of_the_library(self) -> None:
        values = np.random.default_rng(1).integers(0, 9, (5, 4, 6)).astype("<i4")
        for version in (2, 3):
            with self.subTest(version=version):
                name = f"v{version}.zarr"
                path = os.path.join(self.folder, name)
                group = zarr.open_group(path, mode="w", zarr_format=version)
                for key, chunks in (("u", (1, 4, 6)), ("v", (1, 2, 6))):
                    group.create_array(key, data=values, chunks=chunks)
                records = opened(self.folder, name)
                self.assertEqual(len(records), 5)
                self.assertEqual(overlaps(records), [])
                self.assertEqual(len([1 for component in records.components if component.name.startswith("v.")]), 2)
                for some in (2, 5):
                    with tempfile.TemporaryDirectory() as target:
                        copied(records, target, some)
                        copy = zarr.open_group(os.path.join(target, name), mode="r")
                        for key in ("u", "v"):
                            np.testing.assert_array_equal(copy[key][:some], values[:some])


if __name__ == "__main__":
    unittest.main()
