"""Connections of the caller's: which driver one belongs to, and how statements are run on it."""
