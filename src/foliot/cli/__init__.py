"""The `foliot` command. The composition root: it may import everything, and imports it late."""
