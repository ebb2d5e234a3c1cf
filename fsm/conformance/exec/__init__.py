"""Systems under test that run in a separate process."""
