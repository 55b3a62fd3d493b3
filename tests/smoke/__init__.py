"""Short runs of the real program that a person can watch: `make smoke`."""
