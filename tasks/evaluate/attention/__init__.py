"""Attention to entities, their synonyms and random entities, and pictures of it (EMBERT, section 4.5)."""
