"""CMedLMs' comparison of networks and embeddings (Tables 7 to 9), and stand-ins for its tasks made from open data."""
