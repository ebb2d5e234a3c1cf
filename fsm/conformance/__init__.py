"""The conformance kit, which tests any implementation of a lifecycle against the machine of that lifecycle."""
