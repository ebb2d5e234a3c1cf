"""Properties that a machine or a system must have, and the evidence for and against them."""
