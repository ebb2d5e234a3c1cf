"""A container as containerd keeps it: record, checkpoint file, effects, recovery after a restart."""
