"""Tests and recorders for real runtimes and plugins, and a recording proxy."""
