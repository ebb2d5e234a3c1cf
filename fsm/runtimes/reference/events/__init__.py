"""Events of the CRI service: a ``queue`` that clients read from, and a ``backoff`` that retries failed events."""
