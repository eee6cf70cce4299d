"""How the command line says things: the program's name, tables, figures, and the end of a run."""
