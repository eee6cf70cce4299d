"""Stage `decontaminate`: overlaps with test sets are cut out of the corpus."""
