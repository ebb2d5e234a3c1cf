"""Definitions of the library python-statemachine, read and written."""
