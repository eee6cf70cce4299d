"""The encoder of BERT and ELECTRA, run without padding.

`Encoder` is imported when it is first used, because it needs torch. `EncoderConfig` does not, so that a preset is
checked without.
"""

from typing import TYPE_CHECKING, Any

from models.encoder.config import EncoderConfig

if TYPE_CHECKING:
    from models.encoder.network import Encoder

__all__ = ["Encoder", "EncoderConfig"]


def __getattr__(name: str) -> Any:
    """Import `Encoder` (PEP 562)."""
    if name == "Encoder":
        from models.encoder.network import Encoder

        return Encoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
