"""The conformance kit: the machine of a lifecycle tests any implementation of it."""
