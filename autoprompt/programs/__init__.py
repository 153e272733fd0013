"""The user's own program: its model calls are caught, its texts found, other texts put in their place."""
