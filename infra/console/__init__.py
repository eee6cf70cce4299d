"""Terminal and notebook of a run: progress, log lines, text made safe to show, and Ctrl-C."""
