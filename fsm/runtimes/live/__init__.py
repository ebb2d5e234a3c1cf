"""Systems under test and recordings over real sockets: runtime clients, proxies, NRI plugins and servers."""

import os

# When a peer goes away, gRPC prints text from the peer on the terminal, including control characters.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
