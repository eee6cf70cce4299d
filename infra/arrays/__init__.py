"""Foundations of every loop over characters: compiled kernels, arrays of code points, batches of texts."""
