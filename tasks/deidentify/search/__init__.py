"""The search of a text for identifiers: by kinds, then for names that no cue announces, and those found before."""
