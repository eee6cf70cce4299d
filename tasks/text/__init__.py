"""Forms of a text that several rooms compare by."""
