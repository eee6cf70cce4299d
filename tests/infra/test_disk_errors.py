"""Errors of disks name what to do; others pass unchanged."""

from __future__ import annotations

import errno

import pytest

from infra.builds.disk_errors import explained
from infra.errors import StorageFullError, UserError


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk(number: int) -> None:
    message = r"No space left while writing /store/part .*then run again"
    with pytest.raises(StorageFullError, match=message), explained("/store/part"):
        raise OSError(number, "full")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST])
def test_folder_that_cannot_be_written(number: int) -> None:
    message = r"/elsewhere cannot be written .*Point YIWEN_HOME at a folder"
    with pytest.raises(UserError, match=message), explained("/store/part"):
        raise OSError(number, "no", "/elsewhere")


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), ValueError("wrong")])
def test_other_errors_stay_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, explained("/store/part"):
        raise error
    assert caught.value is error
