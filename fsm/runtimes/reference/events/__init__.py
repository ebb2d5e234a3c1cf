"""Events of the CRI service: those that clients read from a ``queue``, and those that are retried by ``backoff``."""
