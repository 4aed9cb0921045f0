"""The notebook among the examples, executed."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "examples" / "promise.ipynb"
#: Longest time of a cell, in seconds; the slowest waits for 22.
LIMIT_S = 180


class Notebook(unittest.TestCase):
    def test_it_has_no_outputs(self) -> None:
        cells: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text())["cells"]
        self.assertFalse([cell for cell in cells if cell.get("outputs") or cell.get("execution_count")])

    def test_it_runs_and_plots_kept_windows(self) -> None:
        try:
            import ipykernel
            import matplotlib
            import nbclient
            import nbformat
        except ImportError as error:
            self.skipTest(f"the notebook needs {error.name}")
        del ipykernel, matplotlib
        formats: Any = nbformat
        notebook = formats.read(NOTEBOOK, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            client = nbclient.NotebookClient(
                notebook, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": folder}}
            )
            client.execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        text = "".join(output.get("text", "") for output in outputs)
        self.assertRegex(text, "too_little_known - ")
        self.assertRegex(text, "Promised - 2.00 Mbit/s")
        [kept] = re.findall(r"kept in (\d+) windows", text)
        self.assertGreater(int(kept), 0)
        self.assertTrue(any("image/png" in output.get("data", {}) for output in outputs), "no plot")


if __name__ == "__main__":
    unittest.main()
