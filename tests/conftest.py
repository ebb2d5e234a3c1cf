"""What every test relies on: the same examples on every run."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("default", max_examples=100, deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", max_examples=2_000, deadline=None)
settings.load_profile("default")
