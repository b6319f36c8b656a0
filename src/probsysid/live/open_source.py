"""How the command line names a source."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from probsysid._internal.errors import InputError
from probsysid.data.readers.read import TextOptions
from probsysid.live.channels import Channels
from probsysid.live.messages import Item
from probsysid.live.mqtt import MqttSource
from probsysid.live.network import TcpLines, UdpLines
from probsysid.live.sources import GrowingFile, Pipe, Replay


def open_source(text: str, channels: Channels, dt: float, options: TextOptions, speed: float) -> Iterable[Item]:
    """The source that a text names: a file that grows, `-`, `replay:FILE`, `udp://`, `tcp://` or `mqtt://`."""
    if text == "-":
        return Pipe(channels)
    if text.startswith("replay:"):
        return Replay(Path(text.removeprefix("replay:")), channels, dt, options, speed)
    parts = urlsplit(text)
    if parts.scheme in ("udp", "tcp"):
        host, port = _address(text)
        return (UdpLines if parts.scheme == "udp" else TcpLines)(host, port, channels)
    if parts.scheme in ("mqtt", "mqtts"):
        return MqttSource(text, channels)
    if "://" in text:
        raise InputError(
            f"--source is {text!r}; known are FILE.csv, -, replay:FILE, udp://, tcp://, mqtt://, mqtts://."
        )
    return GrowingFile(Path(text), channels, options)


def _address(text: str) -> tuple[str, int]:
    """Host, by default this machine alone, and port of an address such as udp://:9000."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = None
    if not port:
        raise InputError(f"--source {text!r} has no port; write for instance {text.split(':')[0]}://127.0.0.1:9000.")
    return parts.hostname or "127.0.0.1", port
