"""Recordings of container runtimes: logs of containerd, calls of CRI, events of NRI, and checkpoints."""
