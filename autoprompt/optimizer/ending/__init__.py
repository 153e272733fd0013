"""The end of a run: confirmation, sealed test, and the report of them."""
