"""The PostgreSQL adapter, versions 14 and later, by psycopg 3."""
