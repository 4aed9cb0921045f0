"""Record sets (``spec/records.md``): reading them, and manifests from scientific files.

A record set is a directory and a manifest, which names the components of its records and where the bytes of each are.

::

    from anabranch.records import RecordSet

    records = RecordSet.open("era/records.toml")
    for record in records:
        numpy.frombuffer(record["t"].read(), ">f4")

``python -m anabranch.records SOURCE… -o records.toml`` writes the manifest of netCDF, HDF5 and Zarr data, and of directories; so does
:func:`make_manifest`. netCDF classic files, Zarr and directories need nothing but this package; netCDF-4 and HDF5 files need h5py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..errors import RecordsError
from ._build import Options, build
from ._choose import Wanted
from ._manifest import Component, Extent
from ._set import Part, Record, RecordSet
from ._write import text

__all__ = ["Component", "Extent", "Part", "Record", "RecordSet", "RecordsError", "make_manifest"]


def make_manifest(
    sources: Sequence[str | os.PathLike[str]],
    *,
    directory: str | os.PathLike[str],
    name: str | None = None,
    rate: str | None = None,
    along: str | None = None,
    per_record: int | None = None,
    components: Sequence[str] | None = None,
    header: bool = True,
    json: bool = False,
) -> str:
    """The text of a manifest, in TOML or JSON. Raises :class:`RecordsError` if none can be made.

    ``sources`` are netCDF and HDF5 files, Zarr directories, and directories of other files, all beneath ``directory``, the set's.
    ``rate`` is that of records, such as ``"25/s"``. ``along`` is the dimension of the records: by default the unlimited one, or the
    first of the largest array. ``per_record`` is the number of its steps in a record: by default that of compressed chunks, or 1.
    ``components`` are texts as the command takes them, ``NAME[=MATCH][,rate=…][,promise=…][,deadline=…][,optional]``, the most
    important first; by default, all variables along the dimension, and all files. With ``header``, record 0 has what else is in the
    files, too.
    """
    options = Options(
        directory=os.fspath(directory),
        name=name,
        rate=rate,
        along=along,
        per_record=per_record,
        components=[Wanted.read(component) for component in components] if components is not None else None,
        has_header=header,
    )
    plan, _ = build(sources, options)
    return "".join(text(plan, is_json=json))
