"""The messages of ``ttrpc.proto``. Their types are in ``ttrpc_pb2.pyi``."""

from fsm.runtimes.sockets.descriptors import define_messages

define_messages(__name__, globals())
