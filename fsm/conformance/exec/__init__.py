"""SUTs that are processes of their own."""
