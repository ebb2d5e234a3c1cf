"""Systems under test that are processes of their own."""
