"""Search of a text for identifiers: by kind, then for names without a cue, and for names found before."""
