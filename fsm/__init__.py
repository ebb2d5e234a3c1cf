"""Executable lifecycle specifications."""
