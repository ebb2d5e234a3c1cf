"""Configurations of the library transitions, read and written."""
