"""State charts in SCXML, read and written."""
