"""ELECTRA+EM+PAP: ELECTRA with entity masking, and product attribute prediction on its discriminator."""
