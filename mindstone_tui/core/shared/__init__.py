"""Histories on a PostgreSQL server, for more than one machine; psycopg is imported only here."""
