"""Entity vocabulary: names and phrases, long entities cut into pieces, synonyms (EMBERT, section 3.1)."""
