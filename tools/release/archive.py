"""The archive of a release."""

from .content import DOC, common, documents, units
from .files import write_tar


def write(source, program, bill, out):
    name = program.name(source.version)
    files = common(source, program)
    files |= {f"lib/systemd/system/{unit}": entry for unit, entry in units(source).items()}
    files |= {f"{DOC}/{document}": entry for document, entry in documents(source, program, bill).items()}
    for document in ("README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"):
        files[f"{DOC}/{document}"] = ((source.root / document).read_bytes(), 0o644)
    path = out / f"{name}.tar.xz"
    write_tar(path, {f"{name}/{file}": entry for file, entry in files.items()}, source.epoch, program.compression)
    return path
