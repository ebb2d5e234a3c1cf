"""What runtimes support, found out by asking them."""
