"""The demo's application: what `foliot demo` runs. An ordinary user's module."""
