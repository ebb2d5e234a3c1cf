"""Container events: the queue that clients read, and the back-off of events that cannot be handled."""
