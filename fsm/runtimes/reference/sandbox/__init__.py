"""containerd's own sandbox controller: a record of each pod, its pause process, and waiting for its exit."""
