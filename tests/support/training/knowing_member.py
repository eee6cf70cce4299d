"""A group of processes as in group_member.py that knows the toy objective; started by test_resources.py."""

from tests.support.training import group_member
from tests.support.training.knowing import register

if __name__ == "__main__":
    register()
    group_member.groups()
