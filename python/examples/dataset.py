"""A dataset on another node, opened where it is: xarray over ``anabranch://`` reads the part that it needs.

Runs without a network: two nodes on loopback, of which one exports a folder. Needs xarray, h5netcdf with h5py, and fsspec.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import anabranch

try:
    import fsspec
    import h5netcdf  # noqa: F401
    import h5py  # noqa: F401
    import numpy
    import xarray
except ImportError as missing:
    print(f"skipped: {missing}; pip install 'anabranch[fsspec]' xarray h5netcdf h5py")
    sys.exit()

#: The program that was installed with the library.
PROGRAM = Path(sys.executable).with_name("anabranch")
#: Key of this side; 32 bytes of ``os.urandom``, or a file, in earnest.
KEY = bytes(range(32))


def make(path: Path) -> None:
    """Hourly temperatures of a year on a small grid, some 50 MB."""
    hours, latitudes, longitudes = 8760, 30, 50
    season = numpy.cos(numpy.arange(hours) * 2 * numpy.pi / 8760)
    noise = numpy.random.default_rng(1).normal(scale=2, size=(hours, latitudes, longitudes))
    values = (12 - 10 * season[:, None, None] + noise).astype("f4")
    dataset = xarray.Dataset(
        {"t2m": (("time", "latitude", "longitude"), values)},
        coords={"time": numpy.arange(hours), "latitude": numpy.linspace(40, 55, latitudes)},
    )
    # A chunk is a day.
    dataset.to_netcdf(path, engine="h5netcdf", encoding={"t2m": {"chunksizes": (24, latitudes, longitudes)}})


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        make(folder / "data" / "year.nc")
        reader = anabranch.Node(key=KEY, bind=["127.0.0.1:0"]).id
        (folder / "node.toml").write_text(f"""
listen = ["127.0.0.1:0"]
key = "{folder}/key"
control = "{folder}/control.sock"
local = ""
ledger = "{folder}/ledger"
promise_record = ""
evidence = ""
[[export]]
name = "climate"
path = "{folder}/data"
[[peer]]
name = "reader"
node = "{reader}"
may = ["call", {{ right = "read-export", exports = ["climate"] }}]
""")
        command = [str(PROGRAM), "node", "--config", str(folder / "node.toml")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
            assert node.stdout is not None
            node.stdout.readline()
            ticket = node.stdout.readline().split()[-1]
            try:
                read(ticket)
            finally:
                node.terminate()


def read(ticket: str) -> None:
    """The mean of a day in July."""
    options = {"ticket": ticket, "key": KEY, "bind": ["127.0.0.1:0"]}
    fs = fsspec.filesystem("anabranch", **options)
    # Small blocks, which are kept: a chunk here, a chunk there.
    file = fs.open("anabranch://studio/climate/year.nc", block_size=1 << 16, cache_type="blockcache")
    with file, xarray.open_dataset(file, engine="h5netcdf") as dataset:
        day = dataset["t2m"].isel(time=slice(4392, 4416)).mean()
        print(f"2 July: {float(day):.1f} °C")
        read_bytes = file.cache.total_requested_bytes
        print(f"read {read_bytes / 1e6:.1f} MB of {file.size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
