"""The types of nodes."""
