"""The encoder of BERT and ELECTRA, run without padding."""

from models.encoder.network import Encoder, EncoderConfig

__all__ = ["Encoder", "EncoderConfig"]
