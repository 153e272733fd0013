"""From what a round has seen to its next candidates: operators, drafts, and what is refused."""
