"""Errors that are meant for the person at the keyboard.

A `UserError` says what is wrong, where (file, row, key) and what to do about it. The command line prints its message
without a traceback. Anything else that is raised is a defect of ours and keeps its traceback.
"""


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
