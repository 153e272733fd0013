"""The end of a run: confirmation, sealed test, and what is told of them."""
