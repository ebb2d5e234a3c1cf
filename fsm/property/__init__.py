"""Properties: what must hold of a machine or a system, and the evidence that it does or does not."""
