"""Stages `encode`, `train`, `export` and `ablation`."""
