"""Planted faults: would a test notice? `make mutants` plants them one by one and counts."""
