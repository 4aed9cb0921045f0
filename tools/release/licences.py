"""Licences of all that is in a program, in one text."""

import pathlib
import re

from .crates import crates, is_own, packages

FILES = re.compile(r"^(un)?licen[cs]e|^copying|^notice|^copyright", re.IGNORECASE)
LINE = "─" * 100


def third_parties(source, program):
    """Each crate with its licence, then each different text with the crates that have it."""
    known = packages(source)
    texts, list_ = {}, []
    for crate in crates(source, program):
        package = known[crate]
        if is_own(package):
            continue
        authors = ", ".join(package["authors"])
        list_.append(f"{crate.name} {crate.version}: {package['license'] or 'see its text'}{f' ({authors})' if authors else ''}")
        folder = pathlib.Path(package["manifest_path"]).parent
        # Sources in C that a crate contains may have their own.
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in ("", ".md", ".txt") and FILES.match(path.name):
                text = path.read_text(errors="replace").replace("\r\n", "\n").strip()
                texts.setdefault(text, []).append(f"{crate.name} {crate.version}")
    if program.glibc is None:
        texts.setdefault((source.root / "packaging/licences/musl.txt").read_text().strip(), []).append("musl")
    parts = [
        "Anabranch is under the MIT licence or Apache-2.0, at your choice. The program contains the following crates, each under its own licence, "
        "the standard library of Rust (MIT or Apache-2.0, The Rust Project Contributors)"
        + (", and musl (MIT)." if program.glibc is None else "."),
        "\n".join(list_),
    ]
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        parts.append(f"{LINE}\n{', '.join(names)}\n{LINE}\n\n{text}")
    return ("\n\n".join(parts) + "\n").encode()
