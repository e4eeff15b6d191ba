"""What drawn networks are made of, a file for each kind: a form adds some nodes and gives the names of results."""
