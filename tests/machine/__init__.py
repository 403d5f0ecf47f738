"""A model of the store, what must always hold, and the machine that looks for where it does not."""
