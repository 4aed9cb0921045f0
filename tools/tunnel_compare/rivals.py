"""Rivals of the comparison, built from public packages where there are any, and from their sources otherwise.

Everything is put into one folder: a program, or a source tree with the program in it, and a log of each build. What is there already
is not built again, and a source tree that is there is not fetched.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess


class NotBuilt(Exception):
    """Reason for which a rival cannot be built here."""


@dataclasses.dataclass(frozen=True)
class Rival:
    """A rival, and how its programs come to be.

    `sources` is its repository, or None for a package. `steps` are the commands, in its source tree or in the folder, in whose words
    `{folder}` is the folder; `renamed` is the name that a package gives to its only program. `needs` are programs for the build, and
    `packages` those of Debian with what it links.
    """

    name: str
    programs: tuple
    steps: tuple
    needs: tuple
    sources: str = None
    packages: tuple = ()
    renamed: str = None


RIVALS = (
    Rival("wireguard-go", ("wireguard-go",), (("go", "install", "golang.zx2c4.com/wireguard@latest"),), ("go",), renamed="wireguard"),
    Rival(
        "aggligator",
        ("agg-tunnel",),
        # The newest one for the Rust of this tree, without its default features, which want USB.
        ((*"cargo install --locked --no-default-features --bin agg-tunnel --root {folder}/aggligator aggligator-util@0.18.12".split(),),),
        ("cargo",),
    ),
    Rival(
        "engarde",
        ("engarde-client", "engarde-server"),
        tuple(("go", "build", "-mod=vendor", f"./cmd/engarde-{end}") for end in ("client", "server")),
        ("go",),
        "https://github.com/porech/engarde.git",
    ),
    Rival("glorytun", ("glorytun",), (("make",),), ("make", "cc"), "https://github.com/angt/glorytun.git", ("libsodium-dev",)),
    Rival(
        "mlvpn",
        ("mlvpn",),
        (("./autogen.sh",), ("./configure", "--disable-filters"), ("make",)),
        ("autoreconf", "pkg-config", "make", "cc"),
        "https://github.com/zehome/MLVPN.git",
        ("libev-dev", "libsodium-dev"),
    ),
    Rival("mqvpn", ("mqvpn",), (("bash", "build.sh"),), ("cmake", "make", "c++"), "https://github.com/mp0rta/mqvpn.git", ("libevent-dev",)),
)


def run(words, where, log):
    """Runs one command of a build; its output goes to the log."""
    environment = os.environ | {"GOBIN": str(log.parent), "GOFLAGS": "-mod=mod", "GIT_TERMINAL_PROMPT": "0"}
    if "-mod=vendor" in words:
        environment.pop("GOFLAGS")
    with log.open("a") as output:
        print("$", *words, file=output, flush=True)
        done = subprocess.run(words, cwd=where, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        last = next((line for line in reversed(log.read_text(errors="replace").splitlines()) if line.strip()), "")
        raise NotBuilt(f"`{' '.join(words)}` failed: {last.strip()} (all of it: {log})")


def make(rival, folder):
    """Builds a rival in the folder."""
    if missing := [name for name in rival.needs if not shutil.which(name)]:
        raise NotBuilt(f"its build needs {', '.join(missing)}")
    log = folder / f"{rival.name}.log"
    log.unlink(missing_ok=True)
    where = folder
    if rival.sources:
        where = folder / rival.name
        if not where.is_dir():
            if not shutil.which("git"):
                raise NotBuilt(f"it is in no public registry of packages, and there is no git to fetch {rival.sources}")
            try:
                run(("git", "clone", "--quiet", "--recursive", "--depth", "1", rival.sources, str(where)), folder, log)
            except NotBuilt as error:
                shutil.rmtree(where, ignore_errors=True)
                raise NotBuilt(f"it is in no public registry of packages; put its sources into {where}, or make this work: {error}") from None
    try:
        for step in rival.steps:
            run([word.replace("{folder}", str(folder)) for word in step], where, log)
    except NotBuilt as error:
        packages = f"; it links what is in {', '.join(rival.packages)} (Debian)" if rival.packages else ""
        raise NotBuilt(f"{error}{packages}") from None
    if rival.renamed:
        (folder / rival.renamed).rename(folder / rival.programs[0])


def build(folder, find, rivals=RIVALS):
    """Builds what can be built in the folder, and names for each rival what came of it; `find` is the path of a program there, or None."""
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)

    def missing(rival):
        return [name for name in rival.programs if not find(name)]

    for rival in rivals:
        if not missing(rival):
            yield f"{rival.name}: is there already, {', '.join(find(name) for name in rival.programs)}"
            continue
        try:
            make(rival, folder)
            if lacking := missing(rival):
                raise NotBuilt(f"its build made no {', '.join(lacking)}")
            yield f"{rival.name}: built, {', '.join(find(name) for name in rival.programs)}"
        except NotBuilt as error:
            yield f"{rival.name}: not built: {error}"
