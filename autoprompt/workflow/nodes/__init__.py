"""The types of nodes, one module each."""
