"""Tasks on users' own files: a table with columns of any name in, checked records with splits out."""
