"""CRI methods by name, with their RPC paths and message types, from the services' descriptors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from fsm.runtimes.live.cri_pb2 import DESCRIPTOR

OLDER: Final = "/runtime.v1alpha2.RuntimeService/Version"
"""Path of Version in the API before v1, which was the only API of runtimes until 2021."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method.  ``streams`` is true if it answers with any number of messages."""

    name: str
    path: str
    request: type[Message]
    response: type[Message]
    streams: bool


def _methods() -> Mapping[str, Method]:
    services: Any = DESCRIPTOR.services_by_name
    return {
        method.name: Method(
            name=method.name,
            path=f"/{service.full_name}/{method.name}",
            request=GetMessageClass(method.input_type),
            response=GetMessageClass(method.output_type),
            streams=bool(method.server_streaming),
        )
        for service in services.values()
        for method in service.methods
    }


METHODS: Final = _methods()
"""The methods of both services by name.  No name occurs in both."""
