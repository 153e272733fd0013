"""`python -m autoprompt`, where the command is not on the path."""

from autoprompt.cli import main

main()
