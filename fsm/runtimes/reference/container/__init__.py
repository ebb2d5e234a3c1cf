"""A container as containerd keeps it, driven by the machine ``container-status``."""
