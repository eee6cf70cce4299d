"""Errors that are meant for the person at the keyboard.

A `UserError` says what is wrong, where (file, row, key) and what to do about it. The command line prints its message
without a traceback. Anything else that is raised is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import errno

_OF_PATHS = {
    errno.EACCES: "Give this user access to it, or another path",
    errno.EPERM: "Give this user access to it, or another path",
    errno.EROFS: "Give a path on a disk that can be written to",
    errno.ENOTDIR: "A file is where a folder should be: give another path",
    errno.EISDIR: "A folder is where a file should be: give another path",
    errno.ENAMETOOLONG: "Give a shorter path",
}
"""Errors that are about a path and not about our code, each with its remedy."""


class UserError(ValueError):
    """An error the user can fix: a path, a preset, a file, a full disk."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the message alone, since where in our code it was noticed helps nobody."""
        return [f"{type(self).__name__}: {self}"]


class DamagedArtifactError(UserError):
    """An artifact on disk differs from what its manifest records."""


class StoreLostError(UserError):
    """The artifact store does not answer. The same work may succeed later, with nothing changed."""


class StorageFullError(UserError):
    """No space is left on the storage below the artifact store."""


class KilledError(RuntimeError):
    """A child process was killed from outside: memory ran out, or its machine is drained. Another try may succeed."""


def path_error(error: BaseException) -> UserError | None:
    """Return the error for users where another one says that a path of theirs cannot be used; None for any other.

    It is for the outermost place. Where a better remedy is known, such as the parameter that gave the path, the code
    that opens it raises a `UserError` itself.
    """
    if not isinstance(error, OSError) or not isinstance(error.filename, str) or error.errno not in _OF_PATHS:
        return None
    return UserError(f"{error.filename} cannot be used ({error.strerror}). {_OF_PATHS[error.errno]}.")


def output_error(error: BaseException) -> UserError | None:
    """Return the error for users where another one says that standard output cannot be written; None for any other.

    An encoding error in UTF-8 is a defect of the program, not of the terminal.
    """
    if isinstance(error, UnicodeEncodeError) and not error.encoding.lower().startswith("utf"):
        return UserError(f"The output's encoding is {error.encoding}, which lacks characters of it. Set PYTHONUTF8=1.")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return UserError("The output cannot be written: no space is left on the device. Free some, or write elsewhere.")
    return None
