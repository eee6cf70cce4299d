"""WordPiece tokenisation, for single texts and for whole corpora."""
