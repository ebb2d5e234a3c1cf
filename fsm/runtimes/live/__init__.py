"""Systems under test and recorders for real runtimes and plugins, and a proxy."""
