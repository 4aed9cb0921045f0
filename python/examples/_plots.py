"""Plots of the examples: in a window with ``--show``, else in a file. Without matplotlib, they are left out, in words."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def options(description: str, file: str) -> argparse.Namespace:
    """Arguments of an example: ``show`` and ``file``."""
    parser = argparse.ArgumentParser(description=description.partition("\n\n")[0])
    parser.add_argument("--file", type=Path, default=Path(file), help="file of the plot (default: %(default)s)")
    parser.add_argument("--show", action="store_true", help="show the plot in a window instead")
    return parser.parse_args()


def pyplot(show: bool) -> Any:
    """``matplotlib.pyplot``, or ``None`` without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed (pip install 'anabranch[plot]')")
        return None
    if not show:
        matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot
