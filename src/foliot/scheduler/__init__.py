"""The scheduler's duties: admit, reap, prune. Done by whoever holds a partition's lease."""
