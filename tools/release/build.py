"""The source, and the program that is built of it."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

MUSL = "x86_64-unknown-linux-musl"
GNU = "x86_64-unknown-linux-gnu"
FEATURES = {"all": [], "core": ["--no-default-features"]}


class Failure(Exception):
    """A message for the user."""


def text_of(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Source:
    """A tree of the source, and what all that is made of it has in common."""

    def __init__(self, root, like=None):
        self.root, self.is_copy = root, like is not None
        if like:
            self.epoch, self.author = like.epoch, like.author
        else:
            self.epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or self._git("log", "-1", "--format=%ct"))
            self.author = self._git("log", "-1", "--format=%an <%ae>")
            if self._git("status", "--porcelain", "--untracked-files=no"):
                print("tools/dist: the tree has changes that are not committed", file=sys.stderr)
        # One environment for all programs that are run.
        os.environ["SOURCE_DATE_EPOCH"] = str(self.epoch)

    def _git(self, *words):
        return text_of("git", *words, cwd=self.root).strip()

    @functools.cached_property
    def metadata(self):
        return json.loads(text_of("cargo", "metadata", "--format-version", "1", "--locked", cwd=self.root))

    @functools.cached_property
    def version(self):
        package = next(package for package in self.metadata["packages"] if package["name"] == "anabranch-cli")
        return package["version"]

    def check_version(self):
        heading = re.compile(rf"^## {re.escape(self.version)}( |$)", re.MULTILINE)
        if not heading.search((self.root / "CHANGELOG.md").read_text()):
            raise Failure(f"CHANGELOG.md has no heading '## {self.version}', the version in Cargo.toml")

    def copy(self, folder):
        """The tracked files, as they are, in another folder."""
        for name in filter(None, self._git("ls-files", "-z").split("\0")):
            path, other = self.root / name, folder / name
            if path.is_symlink() or path.exists():
                other.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, other, follow_symlinks=False)
        return Source(folder, like=self)

    @functools.cached_property
    def target_folder(self):
        """Folder of what is built; that of a copy is inside it."""
        return self.root / "target" if self.is_copy else pathlib.Path(self.metadata["target_directory"])


@dataclasses.dataclass
class Program:
    """An executable, by the name that it gets."""

    path: pathlib.Path
    part: str
    target: str
    # Oldest glibc, as (major, minor); None for a static program.
    glibc: tuple | None
    # Level of xz; what is only tested needs little.
    compression: int = 6

    @classmethod
    def given(cls, source, path, out):
        """One that was built before, without its symbols."""
        stripped = out / "anabranch"
        subprocess.run(["objcopy", "--strip-all", str(path), str(stripped)], check=True)
        return cls(stripped, "all", GNU, glibc_floor(stripped), compression=0)

    @property
    def needs(self):
        return "static" if self.glibc is None else "needs glibc {}.{} or newer".format(*self.glibc)

    @property
    def architecture(self):
        return self.target.split("-")[0]

    def name(self, version):
        """Beginning of the names of its files."""
        part = "" if self.part == "all" else f"-{self.part}"
        libc = "" if self.glibc is None else "-glibc{}.{}".format(*self.glibc)
        return f"anabranch{part}-{version}-{self.architecture}-linux{libc}"

    def run(self, *words):
        return subprocess.run([str(self.path), *words], check=True, stdout=subprocess.PIPE).stdout


def glibc_floor(path):
    """The newest version of a glibc symbol that a program needs; None for a static one."""
    symbols = text_of("objdump", "-T", str(path), stderr=subprocess.DEVNULL)
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)
    return max((int(major), int(minor)) for major, minor in versions) if versions else None


def choose_target(wanted):
    if wanted:
        return wanted
    sysroot = pathlib.Path(text_of("rustc", "--print", "sysroot").strip())
    has_std = (sysroot / "lib" / "rustlib" / MUSL / "lib").is_dir()
    if not has_std and shutil.which("rustup"):
        has_std = subprocess.run(["rustup", "target", "add", MUSL], check=False).returncode == 0
    if has_std and c_compiler(MUSL) is not None:
        return MUSL
    missing = "a C compiler for musl (Debian: musl-tools; PyPI: ziglang)" if has_std else f"the standard library for {MUSL} (rustup)"
    print(f"tools/dist: there is no {missing}; the program is built for the glibc of this machine", file=sys.stderr)
    return GNU


def c_compiler(target):
    """Command of a C compiler for the target; None if there is none."""
    if target == GNU:
        return "cc"
    if own := os.environ.get(f"CC_{target.replace('-', '_')}"):
        return own
    architecture = target.split("-")[0]
    if shutil.which("musl-gcc") and target == MUSL:
        return "musl-gcc"
    has_zig = subprocess.run([sys.executable, "-m", "ziglang", "version"], check=False, capture_output=True).returncode == 0
    return f"{sys.executable} -m ziglang cc -target {architecture}-linux-musl" if has_zig else None


def linker(sysroot):
    """The linker that rustup's toolchains have."""
    return pathlib.Path(sysroot) / "lib/rustlib" / GNU / "bin/gcc-ld/ld.lld"


def environment(source, target):
    """Settings that keep folders of this machine out of the program."""
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    version = text_of("rustc", "-vV")
    commit = re.search(r"commit-hash: (\w+)", version).group(1)
    sysroot = text_of("rustc", "--print", "sysroot").strip()
    # The last that fits is used: the target's folder is inside the tree's.
    replaced = [
        (home, "/cargo"),
        (f"{sysroot}/lib/rustlib/src/rust", f"/rustc/{commit}"),
        (source.root, "/anabranch"),
        (source.target_folder, "/target"),
    ]
    flags = [f"--remap-path-prefix={one}={other}" for one, other in replaced]
    # With a frame pointer a function's entry in the unwind tables is shorter by more than its code is longer, and profilers find the callers.
    flags.append("-Cforce-frame-pointers=yes")
    if linker(sysroot).exists():
        # Equal functions are kept once.
        words = [f"-B{linker(sysroot).parent}", "-fuse-ld=lld", "-Wl,--icf=all"]
        # Relocations in their short form, which glibc has understood since 2.36 only.
        words += ["-Wl,--pack-dyn-relocs=relr"] if target.endswith("-musl") else []
        flags += [f"-Clink-arg={word}" for word in words]
    own = dict(os.environ)
    own.pop("RUSTFLAGS", None)
    own["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flags)
    own["CARGO_INCREMENTAL"] = "0"
    name = target.replace("-", "_")
    own[f"CFLAGS_{name}"] = " ".join(f"-ffile-prefix-map={one}={other}" for one, other in replaced)
    if target != GNU:
        own[f"CC_{name}"] = c_compiler(target)
    return own


def build(source, target, part, out):
    words = ["cargo", "build", "--profile", "dist", "--locked", "--target", target, "-p", "anabranch-cli", *FEATURES[part]]
    words += ["--target-dir", str(source.target_folder)]
    subprocess.run(words, check=True, cwd=source.root, env=environment(source, target))
    path = out / f"anabranch-{part}"
    subprocess.run(["objcopy", "--strip-all", str(source.target_folder / target / "dist" / "anabranch"), str(path)], check=True)
    path.chmod(0o755)
    floor = glibc_floor(path)
    if target.endswith("-musl") and b"ld-musl" in path.read_bytes():
        raise Failure("the program is not static")
    return Program(path, part, target, floor)
