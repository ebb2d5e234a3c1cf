"""Events of the CRI service: a ``queue`` from which clients read events, and a ``backoff`` that retries failed ones."""
