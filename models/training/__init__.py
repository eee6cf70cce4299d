"""Training loop: reading, batching, optimisation, checkpoints, memory."""
