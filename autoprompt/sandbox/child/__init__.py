"""The side of the sandbox that runs in the child, before the code does.

`python -I -S <this folder>` starts it. Standard library only, no import of the rest of the package and
few imports at all: its start is paid by every experiment.
"""
