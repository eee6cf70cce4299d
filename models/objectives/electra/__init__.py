"""ELECTRA: masked language modelling by a generator, replaced token detection by a discriminator."""
