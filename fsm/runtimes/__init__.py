"""Container runtimes: CRI, NRI and containerd, as machines see them, imitated, and on real sockets."""
