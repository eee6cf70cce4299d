"""Errors that are meant for the person at the keyboard.

A `UserError` says what is wrong, where (file, row, key) and what to do about it. The command line prints
its message without a traceback; anything else that is raised is a defect of ours and keeps its traceback.
"""


class UserError(ValueError):
    """Something the user can put right: a path, a preset, a file, a full disk."""


class DamagedArtifactError(UserError):
    """An artifact on disk is not what its manifest says it is."""


class StorageFullError(UserError):
    """The storage below the artifact store has no room left."""
