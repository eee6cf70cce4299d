"""What identifiers look like: names, numbers, dates, addresses and institutions, and what stands beside them."""
