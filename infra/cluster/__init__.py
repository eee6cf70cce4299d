"""Executors of map-like stages, connections to Ray, jobs on a cluster, and copies of their logs."""
