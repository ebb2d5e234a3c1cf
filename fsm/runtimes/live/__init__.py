"""Real sockets: clients of runtimes, proxies, NRI plugins and servers, as systems under test and as recordings."""

import os

# gRPC prints what the other side says as it goes away, controls included, on the terminal of the command.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
