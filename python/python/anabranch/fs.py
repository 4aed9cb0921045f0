"""Exported directories of a peer as a file system of fsspec, protocol ``anabranch``.

``xarray``, ``zarr``, ``pandas`` and others open ``anabranch://PEER/EXPORT/PATH`` with it: read only, by byte ranges, over all paths
between the two nodes. Needs fsspec (``pip install anabranch[fsspec]``).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

try:
    from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem, sync
    from fsspec.callbacks import DEFAULT_CALLBACK
    from fsspec.spec import AbstractBufferedFile
except ImportError as missing:
    raise ImportError("anabranch.fs needs fsspec: pip install 'anabranch[fsspec]'") from missing

from ._exports import Connection, KeyText, Origin, connection
from ._handles import Key
from .errors import ExportError, Rejected

#: Bytes that are written to a local file at once.
_COPY_BYTES = 8 << 20
#: More than any file has: up to its end.
_TO_THE_END = 1 << 62

#: Error numbers for the faults of ``spec/exports.md``.
_ERRNO = {
    1: errno.ENOENT,
    2: errno.EACCES,
    3: errno.EISDIR,
    4: errno.ENOTDIR,
    5: errno.ESTALE,
    6: errno.EINVAL,
    8: errno.EACCES,
    9: errno.EAGAIN,
}


def _os_error(error: ExportError, path: str) -> OSError:
    """The error as ``open`` would raise it: ``FileNotFoundError``, ``PermissionError``, ``IsADirectoryError`` …"""
    return OSError(_ERRNO.get(error.code, errno.EIO), str(error), path)


def _changed(path: str) -> OSError:
    return OSError(errno.ESTALE, "the file has changed since it was opened; open it again", path)


class AnabranchFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Exported directories of peers, read only.

    A path is ``PEER/EXPORT/PATH``. Without ``ticket``, the running node of this machine reaches the peer, which is named as in its
    configuration or by its id. With ``ticket`` (the line that ``anabranch node`` prints at the peer), a node of this process does, and PEER
    is any word; the peer gives the right to read to the id of ``key``.

    ``local``: socket of the running node; ``None``: that of this user. ``ticket``: of the peer. ``key``: the node's key, 32 bytes or a file,
    which is created if it does not exist. ``bind``: its local addresses; ``None``: every interface. The other options are fsspec's.

    Instances with the same node and peer share one session, in all threads. A session that is over is opened again. Instances can be
    pickled: the other process connects by itself.
    """

    protocol = "anabranch"
    root_marker = ""

    def __init__(
        self,
        local: str | os.PathLike[str] | None = None,
        ticket: str | None = None,
        key: Key | None = None,
        bind: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if ticket is None and (key is not None or bind is not None):
            raise ValueError("key and bind are those of a node of this process, which reaches a peer by its ticket: give ticket, too")
        if ticket is not None and local is not None:
            raise ValueError("give local, for a running node, or ticket, for a node of this process")
        text: KeyText = bytes(key) if isinstance(key, bytes | bytearray) else None if key is None else os.fspath(key)
        self._origin = Origin(
            local=None if local is None else os.fspath(local),
            ticket=ticket,
            key=text,
            bind=None if bind is None else tuple(bind),
        )

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        return text.removeprefix("anabranch://").strip("/")

    def _at(self, path: str) -> tuple[Connection, str]:
        """The connection to the peer, and the path there."""
        peer, _, place = self._strip_protocol(path).partition("/")
        if not peer:
            raise ValueError("there is no peer in the path; give anabranch://PEER/EXPORT/PATH")
        return connection(self._origin, peer), place

    async def _call(self, name: str, path: str, *arguments: Any) -> Any:
        peer, place = self._at(path)
        try:
            return await peer.call(name, place, *arguments)
        except ExportError as error:
            raise _os_error(error, path) from None
        except Rejected as error:
            raise PermissionError(errno.EACCES, str(error), path) from None

    async def _read(self, path: str, offset: int, size: int, version: str | None = None) -> tuple[bytes, int, str]:
        """Bytes of a file, fewer where it ends; its size and version."""
        if size <= 0:
            found = await self._info(path)
            return b"", found["size"], found["version"]
        answer: tuple[bytes, int, str] = await self._call("read", path, offset, size, version)
        return answer

    @staticmethod
    def _entry(name: str, row: tuple[str, bool, int, int, str]) -> dict[str, Any]:
        _, is_directory, size, modified_ns, version = row
        return {
            "name": name,
            "type": "directory" if is_directory else "file",
            "size": size,
            "mtime": modified_ns / 1e9,
            "modified_ns": modified_ns,
            "version": version,
        }

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._entry(path, await self._call("stat", path))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        path = self._strip_protocol(path)
        found = await self._info(path)
        entries = [found]
        if found["type"] == "directory":
            entries = [entry async for entry in self._entries(path)]
        return entries if detail else [entry["name"] for entry in entries]

    async def _entries(self, path: str) -> AsyncIterator[dict[str, Any]]:
        after: str | None = ""
        while after is not None:
            rows, after = await self._call("list", path, after)
            for row in rows:
                yield self._entry(f"{path}/{row[0]}", row)

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data, _version = await self._range(path, start, end)
        return data

    async def _range(self, path: str, start: int | None, end: int | None) -> tuple[bytes, str]:
        """Bytes from ``start`` to ``end``, which count from the end of the file if they are negative, and the version."""
        version = None
        if (start or 0) < 0 or (end or 0) < 0:
            found = await self._info(path)
            version = found["version"]
            start = start if start is None or start >= 0 else max(0, found["size"] + start)
            end = end if end is None or end >= 0 else found["size"] + end
        start = start or 0
        size = _TO_THE_END - start if end is None else end - start
        data, _size, version = await self._read(path, start, size, version)
        return data, version

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Ranges of files, read at the same time. All of one file are of one version."""
        if max_gap is not None:
            raise NotImplementedError("max_gap: ranges are not joined here, each is read alone")
        begins = [starts] * len(paths) if isinstance(starts, int) or starts is None else list(starts)
        limits = [ends] * len(paths) if isinstance(ends, int) or ends is None else list(ends)
        if len(begins) != len(paths) or len(limits) != len(paths):
            raise ValueError("starts and ends have as many items as paths")
        reading = (self._range(*one) for one in zip(paths, begins, limits, strict=True))
        results = await asyncio.gather(*reading, return_exceptions=True)
        versions: dict[str, str] = {}
        ranges: list[Any] = []
        for path, result in zip(paths, results, strict=True):
            one: Any = result if isinstance(result, BaseException) else result[0]
            if not isinstance(result, BaseException) and versions.setdefault(path, result[1]) != result[1]:
                one = _changed(path)
            if isinstance(one, BaseException) and (on_error == "raise" or not isinstance(one, Exception)):
                raise one
            ranges.append(one)
        return ranges

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:
        found = await self._info(rpath)
        if found["type"] == "directory":
            os.makedirs(lpath, exist_ok=True)
            return
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        size, version = found["size"], found["version"]
        callback.set_size(size)
        with open(lpath, "wb") as file:
            for start in range(0, size, _COPY_BYTES):
                data, _size, _version = await self._read(rpath, start, min(_COPY_BYTES, size - start), version)
                await asyncio.to_thread(file.write, data)
                callback.relative_update(len(data))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        cache_type: str = "readahead",
        **options: Any,
    ) -> AnabranchFile:
        if mode != "rb":
            self._refuse(path)
        return AnabranchFile(
            self, path, mode, block_size or "default", autocommit, cache_type=cache_type, cache_options=cache_options, **options
        )

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> AnabranchStreamedFile:
        """Opens a file for reading in the loop of this file system."""
        if mode != "rb":
            self._refuse(path)
        found = await self._info(path)
        if found["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
        options.pop("size", None)
        file = AnabranchStreamedFile(self, path, mode, size=found["size"], **options)
        file.version = found["version"]
        return file

    def ukey(self, path: str) -> str:
        """Version of the contents: another one after every change of size, time of modification or identity."""
        version: str = self.info(path)["version"]
        return version

    def checksum(self, path: str) -> int:
        """The version as a number."""
        return int(self.ukey(path), 16)

    def modified(self, path: str) -> datetime:
        """Time of the last modification."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def created(self, path: str) -> datetime:
        """Not known."""
        raise NotImplementedError("a peer states the time of the last modification only")

    def _refuse(self, path: Any) -> NoReturn:
        raise OSError(errno.EROFS, "anabranch:// is read only; `anabranch send` writes to a peer", str(path))

    async def _refuse_async(self, path: Any, *_: Any, **__: Any) -> NoReturn:
        self._refuse(path)

    _rm_file = _rm = _pipe_file = _put_file = _mkdir = _makedirs = _cp_file = _refuse_async

    def _refuse_now(self, path: Any, *_: Any, **__: Any) -> NoReturn:
        """Raises `OSError` (`EROFS`): the file system is read only."""
        self._refuse(path)

    mkdir = makedirs = rmdir = mv = move = touch = rm_file = _refuse_now


class AnabranchFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a peer, of the version that it had when it was opened."""

    def __init__(self, fs: AnabranchFileSystem, path: str, *arguments: Any, **options: Any) -> None:
        found = fs.info(path)
        if found["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
        # Some caches are filled when they are made.
        self.fs, self.path = fs, path
        self.version: str = found["version"]
        options["size"] = found["size"]
        super().__init__(fs, path, *arguments, **options)
        self.details = found

    def _fetch_range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        data, _size, _version = sync(self.fs.loop, self.fs._read, self.path, start, end - start, self.version)
        return bytes(data)


class AnabranchStreamedFile(AbstractAsyncStreamedFile):  # type: ignore[misc]
    """A file of a peer, read by coroutines, of the version that it had when it was opened."""

    #: Version of the file; `None` until the first read.
    version: str | None = None

    async def _fetch_range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        data, _size, _version = await self.fs._read(self.path, start, end - start, self.version)
        return bytes(data)
