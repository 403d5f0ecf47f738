"""The SQLite adapter, versions 3.35 and later, by the standard library's driver."""
