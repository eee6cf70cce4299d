"""What a run shows: progress, log lines, text that a terminal or a notebook may show, and Ctrl-C."""
