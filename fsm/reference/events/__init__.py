"""Events of the CRI service: those that clients read, and those whose handling is retried.

``queue`` is the queue behind GetContainerEvents, driven by the machine
``container-events``; ``backoff`` retries events, driven by ``event-backoff``.
``upstream`` is what containerd does instead; ``queue_sut`` and ``backoff_sut``
test them.
"""
