"""Standard terms and all names that they can be found by."""
