"""The conformance kit, which tests implementations of a lifecycle against its machine."""
