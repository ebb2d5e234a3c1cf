"""The conformance kit. It tests implementations of a lifecycle against the machine that specifies it."""
