"""A clean root of Debian, made once by debootstrap and unpacked anew for each use."""

import os
import pathlib
import shutil
import subprocess
import tempfile

SUITE = "bookworm"
# systemd, for systemd-analyze; nothing is booted.
INCLUDE = "systemd"


class Root:
    """The root, as a folder; removed at the end of a `with`."""

    def __init__(self, folder):
        self._folder = folder
        self.path = pathlib.Path(folder.name) / "root"

    @classmethod
    def make(cls, tar):
        """A new root; None, after printing the reason, where there can be none."""
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            print("no root or no debootstrap: the installation in a clean root is left out")
            return None
        folder = tempfile.TemporaryDirectory(prefix="anabranch-root-", dir=tar.parent)
        root = cls(folder)
        root.path.mkdir()
        if not tar.exists():
            print(f"debootstrap {SUITE} …", flush=True)
            made = subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={INCLUDE}", SUITE, str(root.path)], check=False, capture_output=True, text=True
            )
            if made.returncode != 0:
                print(f"debootstrap does not get its packages here: left out ({made.stdout.strip().splitlines()[-1:]})")
                folder.cleanup()
                return None
            part = tar.with_suffix(".part")
            subprocess.run(["tar", "-C", str(root.path), "--exclude=./var/cache/apt/archives/*.deb", "-cf", str(part), "."], check=True)
            part.rename(tar)
        else:
            subprocess.run(["tar", "-C", str(root.path), "-xf", str(tar)], check=True)
        return root

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def command(self, *words):
        # Without the network and the processes of this machine, and with its own /proc.
        inside = 'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"'
        space = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "sh", "-c", inside, str(self.path)]
        return [*space, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "HOME=/root", *words]

    def run(self, *words):
        return subprocess.run(self.command(*words), check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

    def install(self, package):
        shutil.copy(package, self.path / "tmp" / package.name)
        self.run("dpkg", "--install", f"/tmp/{package.name}")
        (self.path / "tmp" / package.name).unlink()

    def files(self):
        """All files and folders, without the records and logs of dpkg, and what is gone after a boot."""
        own = ("var/lib/dpkg", "var/log", "proc", "run", "var/cache")
        found = (path.relative_to(self.path).as_posix() for path in self.path.rglob("*"))
        return {path for path in found if not path.startswith(own)}
