"""The Python front door: nodes as classes."""
