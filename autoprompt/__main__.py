"""`python -m autoprompt`, where the command is not on the path."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working directory: a `typer.py` there is not the library

from autoprompt.cli import main

main()
