"""One run: prepared, foretold, at work, gone on with, and read again later."""
