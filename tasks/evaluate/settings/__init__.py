"""One setting of a preset, varied: what models have learnt over its values (SMedBERT, Figures 3 and 4)."""
