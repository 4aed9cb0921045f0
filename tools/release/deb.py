"""The Debian package: packaging/debian, around the same files as the archive."""

import email.utils
import hashlib
import subprocess
import tempfile
import pathlib

from .build import Failure
from .content import DOC, common, documents, units
from .files import gzipped

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
REVISION = 1
SCRIPTS = ["postinst", "prerm", "postrm"]


def write(source, program, bill, out):
    version = f"{source.version}-{REVISION}"
    architecture = ARCHITECTURES.get(program.architecture)
    if not architecture:
        raise Failure(f"Debian has no name here for {program.architecture}")
    files = _files(source, program, bill, version)
    files |= {f"DEBIAN/{name}": entry for name, entry in _control(source, program, files, version, architecture).items()}
    path = out / f"anabranch_{version}_{architecture}.deb"
    with tempfile.TemporaryDirectory(dir=out) as folder:
        for name, (data, mode) in files.items():
            file = pathlib.Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(mode)
        for parent in [pathlib.Path(folder), *pathlib.Path(folder).rglob("*")]:
            if parent.is_dir():
                parent.chmod(0o755)
        # Times become those of SOURCE_DATE_EPOCH. With several threads, the result could depend on their number.
        words = ["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{program.compression}", "--threads-max=1", "--build", folder, str(path)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return path


def _files(source, program, bill, version):
    debian = source.root / "packaging/debian"
    read = lambda name: ((debian / name).read_bytes(), 0o644)
    # Debian's folder for packages.
    place = lambda name: name.replace("zsh/site-functions", "zsh/vendor-completions")
    files = {f"usr/{place(name)}": entry for name, entry in common(source, program).items()}
    pages = [name for name in files if "/man/" in name]
    for name in pages:
        data, mode = files.pop(name)
        files[f"{name}.gz"] = (gzipped(data), mode)
    files |= {f"lib/systemd/system/{name}": entry for name, entry in units(source).items()}
    for name, (data, mode) in documents(source, program, bill).items():
        # As debhelper does: small files and examples stay as they are.
        compress = len(data) > 4096 and not name.startswith("examples/")
        files[f"usr/{DOC}/{name}{'.gz' if compress else ''}"] = (gzipped(data) if compress else data, mode)
    date = email.utils.formatdate(source.epoch)
    entry = f"anabranch ({version}) unstable; urgency=medium\n\n  * Release {source.version}: changelog.gz.\n\n -- {source.author}  {date}\n"
    files[f"usr/{DOC}/changelog.Debian.gz"] = (gzipped(entry.encode()), 0o644)
    files[f"usr/{DOC}/changelog.gz"] = (gzipped((source.root / "CHANGELOG.md").read_bytes()), 0o644)
    files[f"usr/{DOC}/copyright"] = read("copyright")
    files["etc/anabranch/node.toml"] = read("node.toml")
    files["usr/share/lintian/overrides/anabranch"] = read("lintian-overrides")
    return files


def _control(source, program, files, version, architecture):
    debian = source.root / "packaging/debian"
    size = sum(-(-len(data) // 1024) for data, _ in files.values())
    fields = {
        "VERSION": version,
        "ARCHITECTURE": architecture,
        "MAINTAINER": source.author,
        "SIZE": str(size),
        "DEPENDS": "init-system-helpers (>= 1.54)" + ("" if program.glibc is None else ", libc6 (>= {}.{}), libgcc-s1".format(*program.glibc)),
    }
    text = (debian / "control").read_text()
    for name, value in fields.items():
        text = text.replace(f"@{name}@", value)
    sums = [f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {name}\n" for name, (data, _) in sorted(files.items()) if not name.startswith("etc/")]
    control = {
        "control": (text.encode(), 0o644),
        "conffiles": (b"/etc/anabranch/node.toml\n", 0o644),
        "md5sums": ("".join(sums).encode(), 0o644),
    }
    return control | {name: ((debian / name).read_bytes(), 0o755) for name in SCRIPTS}
