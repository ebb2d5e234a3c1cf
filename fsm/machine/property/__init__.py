"""Properties: what must hold of a machine or a system, and the evidence for and against it."""
