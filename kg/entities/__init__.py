"""Entity vocabulary: names and phrases, segmentation of long entities, synonyms (EMBERT, section 3.1)."""
