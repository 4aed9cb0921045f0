"""What is installed with a program, below a prefix such as /usr: {path: (bytes, mode)}."""

import pathlib
import tempfile

from .licences import third_parties

COMPLETIONS = {
    "bash": "share/bash-completion/completions/anabranch",
    "zsh": "share/zsh/site-functions/_anabranch",
    "fish": "share/fish/vendor_completions.d/anabranch.fish",
}
UNITS = ["anabranch.service", "anabranch-tunnel.service"]
DOC = "share/doc/anabranch"


def common(source, program):
    """The program, its manual pages and completions."""
    files = {"bin/anabranch": (program.path.read_bytes(), 0o755)}
    with tempfile.TemporaryDirectory() as folder:
        program.run("man", "--out", folder)
        for page in pathlib.Path(folder).iterdir():
            files[f"share/man/man1/{page.name}"] = (page.read_bytes(), 0o644)
    for shell, path in COMPLETIONS.items():
        files[path] = (program.run("completions", shell), 0o644)
    return files


def units(source):
    """The units for systemd, by name."""
    return {name: ((source.root / "packaging/systemd" / name).read_bytes(), 0o644) for name in UNITS}


def documents(source, program, bill):
    """Documents, by their names in the folder of documents."""
    read = lambda path: ((source.root / path).read_bytes(), 0o644)
    files = {
        "LICENCES": (third_parties(source, program), 0o644),
        # Terms of the recordings and the film inside the program.
        "data.md": read("data/README.md"),
        "examples/node.toml": read("crates/node/node.example.toml"),
        "examples/stream.toml": read("crates/node/stream.example.toml"),
        "examples/anabranch-tunnel-dns.conf": read("packaging/systemd/anabranch-tunnel-dns.conf"),
        "sbom.cdx.json": (bill.read_bytes(), 0o644),
    }
    for path in [*sorted((source.root / "docs").glob("*.md")), *sorted((source.root / "spec").glob("*.md"))]:
        name = path.relative_to(source.root).as_posix()
        files[name] = read(name)
    return files
