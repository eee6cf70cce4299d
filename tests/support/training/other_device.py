"""A device that is not the CPU, for machines without one: tensors that lie elsewhere and meet no tensor of the CPU.

Tensors are moved there by `to`, and made there by all but `torch.tensor` and `new_tensor`, which cannot be caught. They
are computed on the CPU, and say that they lie on `DEVICE`. An operation that takes tensors of both is refused, as a GPU
would refuse it. What a GPU does with streams, kernels and rounding is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

DEVICE = torch.device("meta")
"""A device that every torch knows and nothing computes on."""

TRANSFERS = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


class ElsewhereTensor(torch.Tensor):
    """A tensor of the CPU that says it lies on `DEVICE`."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> ElsewhereTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls, here.shape, here.stride(), here.storage_offset(), dtype=here.dtype, device=DEVICE
        )
        made.here = here
        return made

    def tolist(self) -> Any:
        """The numbers, which any device can tell."""
        return self.here.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Refused, as on any device but the CPU."""
        raise TypeError(f"a tensor on {DEVICE} has no array; bring it to the CPU first")

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(function, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """Within it tensors can be made and moved to `DEVICE`; counts the operations done there."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += any(isinstance(one, ElsewhereTensor) for one in tree_iter((args, kwargs)))
        return _computed(function, args, kwargs or {})


def _computed(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    given = [one for one in tree_iter((args, kwargs)) if isinstance(one, torch.Tensor)]
    elsewhere = {id(one.here): one for one in given if isinstance(one, ElsewhereTensor)}
    # A number may come from the CPU, as on a GPU.
    if elsewhere and function not in TRANSFERS and any(type(one) is torch.Tensor and one.ndim for one in given):
        raise RuntimeError(f"{function} takes tensors of two devices")
    wanted = kwargs.get("device")
    stays = bool(elsewhere) if wanted is None else torch.device(wanted) == DEVICE
    if wanted is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    found = function(*tree_map(_here, args), **tree_map(_here, kwargs))
    if function is torch.ops.aten.copy_.default:
        return args[0]
    return tree_map(lambda one: _elsewhere(one, elsewhere), found) if stays else found


def _here(one: Any) -> Any:
    return one.here if isinstance(one, ElsewhereTensor) else one


def _elsewhere(one: Any, known: Mapping[int, ElsewhereTensor]) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    return known[id(one)] if id(one) in known else ElsewhereTensor(one)
