"""Training of TransE and TransR: splits, negatives, losses, optimiser, link prediction."""
