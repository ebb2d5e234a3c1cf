"""Systems under test and recordings at real runtimes and plugins, and a proxy."""
