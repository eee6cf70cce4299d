"""Files of any kind, local or behind a URI: compression, archives, encodings and rows. This room has no stage."""
