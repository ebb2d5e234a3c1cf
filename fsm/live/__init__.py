"""Real sockets: clients of runtimes, proxies, NRI plugins and servers, as systems under test and as recordings."""
