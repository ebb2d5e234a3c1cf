"""Test implementations of a lifecycle against the machine that specifies it."""
