"""Forms of identifiers: names, numbers, dates, addresses and institutions, and the words beside them."""
