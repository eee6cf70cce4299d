"""The training loop: reading, batching, optimisation, checkpoints, memory."""
