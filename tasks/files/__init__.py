"""Files of any kind, local or behind a URI: compression, archives, encodings, rows. No stage lives here."""
