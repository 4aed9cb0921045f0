"""The crates that a program is made of, as `cargo tree` resolves them for its target and parts."""

import dataclasses
import tomllib

from .build import FEATURES, text_of


@dataclasses.dataclass(frozen=True, order=True)
class Crate:
    name: str
    version: str

    def __str__(self):
        return f"{self.name}@{self.version}"


def _tree(source, program, edges, *words):
    words = ["cargo", "tree", "--locked", "-p", "anabranch-cli", "--target", program.target, "-e", edges, *FEATURES[program.part], *words]
    return text_of(*words, cwd=source.root).splitlines()


def _crate(text):
    name, version, *_ = text.split()
    return Crate(name, version.removeprefix("v"))


def crates(source, program, edges="normal"):
    """All crates, sorted; with edges "normal,build", those that only run while the program is built, too."""
    lines = _tree(source, program, edges, "--prefix", "none", "--no-dedupe", "--format", "{p}")
    return sorted({_crate(line) for line in lines if line})


def dependencies(source, program, edges):
    """The direct dependencies of each crate."""
    needs, path = {}, []
    for line in _tree(source, program, edges, "--prefix", "depth", "--no-dedupe", "--format", " {p}"):
        depth, text = line.split(" ", 1)
        crate = _crate(text)
        needs.setdefault(crate, set())
        del path[int(depth) :]
        if path:
            needs[path[-1]].add(crate)
        path.append(crate)
    return {crate: sorted(others) for crate, others in sorted(needs.items())}


def packages(source):
    """What `cargo metadata` states about each crate."""
    return {Crate(package["name"], package["version"]): package for package in source.metadata["packages"]}


def checksums(source):
    """SHA-256 of each crate of the registry."""
    lock = tomllib.loads((source.root / "Cargo.lock").read_text())
    return {Crate(package["name"], package["version"]): package["checksum"] for package in lock["package"] if "checksum" in package}


def is_own(package):
    return package["source"] is None
