"""Protocols on sockets: CRI, NRI and streams, with their messages, clients and servers."""

import os

# When a peer goes away, gRPC prints text from the peer on the terminal, including control characters.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
