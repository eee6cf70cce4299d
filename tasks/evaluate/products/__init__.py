"""Models' knowledge of products: their values ranked, query-title relevance, and the sweep of ρ (ELECTRA+EM+PAP)."""
