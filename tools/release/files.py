"""Files that are the same bytes whenever they are made of the same input."""

import gzip
import hashlib
import io
import lzma
import tarfile


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def gzipped(data):
    """As `gzip -9n`."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def write_tar(path, entries, epoch, preset):
    """Writes a .tar.xz of {name: (bytes, mode)}: in the order of the names, owned by root, at one time."""
    folders = {str(parent) for name in entries for parent in _parents(name)}
    with lzma.open(path, "wb", preset=preset) as compressed, tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted([*folders, *entries]):
            info = tarfile.TarInfo(name)
            info.mtime = epoch
            info.uname = info.gname = "root"
            if name in entries:
                data, info.mode = entries[name]
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            else:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)


def _parents(name):
    parts = name.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def write_sums(paths, out):
    path = out / "SHA256SUMS"
    path.write_text("".join(f"{digest(file)}  {file.name}\n" for file in sorted(paths)))
    return path
