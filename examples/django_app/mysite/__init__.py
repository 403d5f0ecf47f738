"""The project: settings, addresses, the Foliot app, and what workers load."""
