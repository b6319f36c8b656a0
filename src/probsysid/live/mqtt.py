"""MQTT: samples in, results out.  Needs paho-mqtt: `pip install probsysid[mqtt]`.

`mqtt://HOST[:PORT]/TOPIC`, or `mqtts://` for TLS.  User and password come from the environment, PROBSYSID_MQTT_USER and
PROBSYSID_MQTT_PASSWORD, and a private authority's certificate from the file PROBSYSID_MQTT_CA.  Messages are
acknowledged to the broker when they are on the disk, so that it delivers again what a killed run had not saved.
"""

import hashlib
import os
import queue
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from probsysid._internal.errors import InputError
from probsysid.live.channels import Channels
from probsysid.live.messages import IDLE, Item, decode

IN_FLIGHT = 1000
"""Messages that wait in this process; a broker holds back the others until these are acknowledged."""


class Address(NamedTuple):
    """A broker and a topic on it."""

    host: str
    port: int
    topic: str
    tls: bool

    @classmethod
    def of(cls, text: str) -> "Address":
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise InputError(f"{text!r} is not an address; write mqtt://host/topic.") from None
        topic = unquote(parts.path.removeprefix("/")) + (f"#{parts.fragment}" if text.endswith("#") else "")
        if parts.username or parts.password:
            raise InputError("user and password do not belong into an address; set PROBSYSID_MQTT_USER and _PASSWORD.")
        if not parts.hostname or not topic:
            raise InputError(f"{text!r} has no {'host' if not parts.hostname else 'topic'}; write mqtt://host/topic.")
        tls = parts.scheme == "mqtts"
        return cls(parts.hostname, port or (8883 if tls else 1883), topic, tls)


def _client(address: Address, name: str, *, keep: bool) -> Any:
    """A client that reconnects by itself; with `keep` the broker holds its messages meanwhile."""
    try:
        from paho.mqtt import client as paho
        from paho.mqtt.enums import CallbackAPIVersion
    except ImportError:
        raise InputError("MQTT needs paho-mqtt; install it with: pip install 'probsysid[mqtt]'.") from None
    made = paho.Client(
        CallbackAPIVersion.VERSION2,
        client_id=name,
        clean_session=not keep,
        manual_ack=keep,
        protocol=paho.MQTTv311,
    )
    user = os.environ.get("PROBSYSID_MQTT_USER")
    if user:
        made.username_pw_set(user, os.environ.get("PROBSYSID_MQTT_PASSWORD"))
    if address.tls:
        made.tls_set(ca_certs=os.environ.get("PROBSYSID_MQTT_CA"))
    made.reconnect_delay_set(1, 30)
    return made


class MqttSource:
    """Samples from a topic."""

    def __init__(self, text: str, channels: Channels):
        address = Address.of(text)
        self._where = f"{address.host}:{address.port}/{address.topic}"
        self._channels = channels
        self._arrived: queue.Queue[Any] = queue.Queue(IN_FLIGHT)
        self._closed = False
        digest = hashlib.sha256(f"{text} {os.getcwd()}".encode()).hexdigest()[:12]
        self._client = _client(address, f"probsysid-{digest}", keep=True)
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._subscribed
        self._client.on_disconnect = self._disconnected
        self._client.on_message = lambda client, data, message: self._arrived.put(message)
        self._topic = address.topic
        self.reconnects = 0
        self.state = f"connects to {self._where}"
        self._client.connect_async(address.host, address.port, keepalive=15)
        self._client.loop_start()

    def __iter__(self) -> Iterator[Item]:
        while not self._closed:
            try:
                message = self._arrived.get(timeout=IDLE)
            except queue.Empty:
                yield None
                continue
            found = list(decode(message.payload, self._channels.columns, self._channels.time))
            acknowledge = partial(self._acknowledge, message.mid, message.qos)
            if not found:
                acknowledge(0)
                continue
            yield from found[:-1]
            yield found[-1]._replace(acknowledge=acknowledge)

    def _acknowledge(self, message: int, quality: int, saved: int) -> None:
        self._client.ack(message, quality)

    def close(self) -> None:
        self._closed = True
        self._client.disconnect()
        while not self._arrived.empty():  # the network thread may wait for room
            self._arrived.get_nowait()
        self._client.loop_stop()

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self.state = f"{self._where} refuses: {reason}"
            return
        self.state = f"subscribes to {self._where}"
        client.subscribe(self._topic, qos=1)

    def _subscribed(self, client: Any, data: Any, message: int, reasons: Any, properties: Any) -> None:
        """From now on nothing is missed."""
        refused = [reason for reason in reasons if reason.is_failure]
        self.state = f"{self._where} refuses: {refused[0]}" if refused else f"connected to {self._where}"

    def _disconnected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if not self._closed and "refuses" not in self.state:
            self.reconnects += 1
            self.state = f"lost {self._where} ({reason}); connects again"


class MqttResults:
    """Publishes results, the newest retained, so that who subscribes later sees it at once."""

    def __init__(self, text: str):
        address = Address.of(text)
        self._topic = address.topic
        self._client = _client(address, "", keep=False)
        self._client.connect_async(address.host, address.port, keepalive=15)
        self._client.loop_start()

    def write(self, line: str) -> None:
        """Publish one line of results."""
        self._client.publish(self._topic, line, qos=0, retain=True)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
