"""Directories for what is trusted when it is read again: they are this user's alone."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


def open_private(path: str) -> int:
    """Open a directory that is this user's alone, made if it is not there, with those above it.

    Guarantee: the directory belongs to this user, has the mode 0700 and is not a symbolic link; else
    `OSError`.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "cache", "segments")
        >>> os.close(open_private(path))
        >>> oct(os.stat(path).st_mode & 0o777)
        '0o700'
    """
    _make(path)
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(number)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(number)
        raise PermissionError(f"{path} is not private: its owner or mode is not this user's, 0700")
    return number


def check_unmovable(path: str) -> None:
    """Refuse a path on which somebody else could put another directory: `PermissionError`.

    Whoever can write to a directory above can rename what lies there; a private directory does not
    help then. Trusted are this user and root, and directories such as /tmp, whose sticky bit keeps
    everybody to what is their own.
    """
    above = os.path.dirname(os.path.realpath(path))
    while True:
        found = os.stat(above)
        writable = 0o022
        if found.st_gid == found.st_uid:
            writable = 0o002  # the group that many systems give each user, who is its only member
        open_to_others = found.st_mode & writable and not found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.geteuid()) or open_to_others:
            raise PermissionError(f"others can write to {above}, and so replace what lies there")
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


def _make(path: str) -> None:
    """The directory, and those above it that are missing, private whatever the umask is."""
    above = os.path.dirname(path)
    if above and not os.path.isdir(above):
        _make(above)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
