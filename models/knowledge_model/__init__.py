"""An encoder with knowledge infused at mentions (SMedBERT) as a model of its own: its network and its folder."""
