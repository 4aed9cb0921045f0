"""Records of the package wfdb, copied, and read by it again."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import wfdb

FRAMES = 1_001
INVALID = {"16": -(2**15), "212": -(2**11)}


class Records(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def copy(self, source: pathlib.Path, *lost: int) -> wfdb.Record:
        """The copy of a record, as the package reads it: digital samples of shape (frames, leads)."""
        words = [os.environ["COPY_RECORD"], f"{source}.hea", self.folder, "copy", *map(str, lost)]
        subprocess.run(words, check=True)
        return wfdb.rdrecord(str(self.folder / "copy"), physical=False)

    def write(self, form: str) -> np.ndarray:
        """A record of three leads, some of whose samples are invalid; returns its digital samples of shape (frames, leads)."""
        random = np.random.default_rng(3)
        most = -INVALID[form] - 1
        samples = random.integers(-most, most, size=(FRAMES, 3), endpoint=True)
        samples[::50, 1] = INVALID[form]
        wfdb.wrsamp(
            "source",
            fs=360,
            units=["mV", "mV", "uV"],
            sig_name=["I", "II", "V 1"],
            d_signal=samples,
            fmt=[form] * 3,
            adc_gain=[200.0, 1000.5, 0.3],
            baseline=[0, -7, 100],
            comments=["age: 81"],
            write_dir=str(self.folder),
        )
        return samples

    def check(self, form: str) -> None:
        samples = self.write(form)
        expected = np.where(samples == INVALID[form], INVALID["16"], samples)
        copy = self.copy(self.folder / "source")
        np.testing.assert_array_equal(copy.d_signal, expected)
        self.assertEqual((copy.fs, copy.sig_name, copy.units), (360, ["I", "II", "V 1"], ["mV", "mV", "uV"]))
        self.assertEqual((copy.adc_gain, copy.baseline), ([200.0, 1000.5, 0.3], [0, -7, 100]))
        self.assertEqual(copy.init_value, expected[0].tolist())
        self.assertEqual([int(c) % 65536 for c in copy.checksum], (expected.sum(axis=0) % 65536).tolist())
        self.assertEqual(copy.comments, ["age: 81"])
        physical = wfdb.rdrecord(str(self.folder / "copy")).p_signal
        original = wfdb.rdrecord(str(self.folder / "source")).p_signal
        np.testing.assert_array_equal(physical, original)
        self.assertTrue(np.isnan(physical[50, 1]))

    def test_format_16(self) -> None:
        self.check("16")

    def test_format_212(self) -> None:
        self.check("212")

    def test_lost_frames_are_invalid_and_listed(self) -> None:
        samples = self.write("16")
        samples[100:140] = INVALID["16"]
        copy = self.copy(self.folder / "source", 100, 40)
        np.testing.assert_array_equal(copy.d_signal, samples)
        self.assertEqual(copy.comments, ["age: 81", "hole 100 40"])
        self.assertTrue(np.isnan(wfdb.rdrecord(str(self.folder / "copy")).p_signal[100:140]).all())

    def test_a_recorded_ecg(self) -> None:
        source = pathlib.Path(os.environ.get("ECG_DATA", "")) / "s0010_re"
        if not source.with_suffix(".dat").is_file():
            self.skipTest("s0010_re is not there")
        copy = self.copy(source)
        # The package opens no record of which a file is missing; the file is plain 16 bit numbers.
        samples = np.fromfile(source.with_suffix(".dat"), dtype="<i2").reshape(-1, 12)
        np.testing.assert_array_equal(copy.d_signal, samples)
        self.assertEqual(copy.sig_name[:3], ["i", "ii", "iii"])
        self.assertEqual((copy.fs, copy.adc_gain[0]), (1000, 2000.0))


if __name__ == "__main__":
    unittest.main()
