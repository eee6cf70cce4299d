"""Kernels over code points and batches of texts: what every loop over characters is built on."""
