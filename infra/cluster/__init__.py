"""Ray: local sessions, jobs of a cluster, and logs copied from it."""
