"""Recordings of container runtimes: containerd logs, CRI calls, NRI events and checkpoints."""
