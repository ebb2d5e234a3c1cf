"""The conformance kit: the machine of a lifecycle tests anybody's implementation of it."""
