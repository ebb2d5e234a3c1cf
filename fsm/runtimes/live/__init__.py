"""Real sockets: clients of runtimes, proxies, NRI plugins and servers, as systems under test and as recordings."""

import os

# When a peer goes away, gRPC prints the peer's text on the terminal, control characters included.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
