"""Clients and servers for CRI, NRI and command streams on sockets, and the messages of these protocols."""

import os

# Silence gRPC: when a peer disconnects, gRPC would print text from the peer, including control characters.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
