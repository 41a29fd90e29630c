"""An MQTT 5 client (paho) whose every step can be awaited."""

import queue
import socket
import threading
from itertools import count

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from server import HANG_TIMEOUT

_barriers = count()


def properties(packet, values):
    """Properties of a packet type, or None; names as in paho, for instance ``MessageExpiryInterval``."""
    if not values:
        return None
    made = Properties(packet)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Will:
    """A will; ``delay`` in seconds."""

    def __init__(self, topic, payload, qos=1, delay=0, retain=False):
        self.topic, self.payload, self.qos, self.delay, self.retain = topic, payload, qos, delay, retain


class Refused(Exception):
    """The server refused the connection; ``code`` is the reason code of its CONNACK."""

    def __init__(self, reason):
        super().__init__(str(reason))
        self.code = reason.value


class Peer:
    """A connected client. What it receives waits in the order of arrival."""

    def __init__(
        self,
        port,
        client_id,
        *,
        clean_start=True,
        session_expiry=0,
        will=None,
        manual_ack=False,
        keep_alive=60,
        user=None,
        password=None,
        **connect_properties,
    ):
        self.client_id = client_id
        self._results = {}
        self._changed = threading.Condition()
        self._messages = queue.Queue()
        self.client = client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=manual_ack,
        )
        client.on_connect = lambda _c, _u, flags, reason, props: self._done("connack", (flags, reason, props))
        client.on_disconnect = lambda _c, _u, _flags, reason, _props: self._done("end", reason)
        client.on_subscribe = lambda _c, _u, mid, reasons, _props: self._done(("suback", mid), reasons)
        client.on_unsubscribe = lambda _c, _u, mid, reasons, _props: self._done(("unsuback", mid), reasons)
        client.on_publish = lambda _c, _u, mid, reason, _props: self._done(("puback", mid), reason)
        client.on_message = lambda _c, _u, message: self._messages.put(message)
        if will:
            delay = properties(PacketTypes.WILLMESSAGE, {"WillDelayInterval": will.delay} if will.delay else {})
            client.will_set(will.topic, will.payload, will.qos, will.retain, delay)
        if user:
            client.username_pw_set(user, password)
        if session_expiry:
            connect_properties["SessionExpiryInterval"] = session_expiry
        client.connect(
            "127.0.0.1",
            port,
            keep_alive,
            clean_start=clean_start,
            properties=properties(PacketTypes.CONNECT, connect_properties),
        )
        # Otherwise a PUBLISH right after a PUBACK waits for a delayed TCP acknowledgement.
        client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.loop_start()
        flags, reason, self.connack = self._await("connack")
        self.session_present = flags.session_present
        if reason.is_failure:
            self.end()
            raise Refused(reason)

    def _done(self, what, result):
        with self._changed:
            self._results[what] = result
            self._changed.notify_all()

    def _await(self, what):
        with self._changed:
            assert self._changed.wait_for(lambda: what in self._results, HANG_TIMEOUT), f"no {what} within {HANG_TIMEOUT} s"
            return self._results.pop(what)

    def subscribe(self, topic_filter, qos=1, identifier=None, no_local=False):
        """The reason code of the SUBACK."""
        _, mid = self.client.subscribe(
            topic_filter,
            options=SubscribeOptions(qos=qos, noLocal=no_local),
            properties=properties(
                PacketTypes.SUBSCRIBE, {"SubscriptionIdentifier": identifier} if identifier else {}
            ),
        )
        (reason,) = self._await(("suback", mid))
        return reason.value

    def unsubscribe(self, topic_filter):
        """The reason code of the UNSUBACK."""
        _, mid = self.client.unsubscribe(topic_filter)
        (reason,) = self._await(("unsuback", mid))
        return reason.value

    def send(self, topic, payload=b"", qos=1, retain=False, **publish_properties):
        """Publishes without waiting; the packet id."""
        sent = self.client.publish(
            topic, payload, qos, retain, properties(PacketTypes.PUBLISH, publish_properties)
        )
        return sent.mid

    def publish(self, topic, payload=b"", qos=1, **publish_properties):
        """Publishes and returns the reason code of the PUBACK (0 at QoS 0)."""
        return self._await(("puback", self.send(topic, payload, qos, **publish_properties))).value

    def message(self):
        """The next message."""
        return self._messages.get(timeout=HANG_TIMEOUT)

    def acknowledge(self, message):
        """PUBACK of a message, for a client with ``manual_ack``."""
        self.client.ack(message.mid, message.qos)

    def received(self):
        """All messages that the server sent before it handled this call and that were not taken yet."""
        assert self.subscribe(f"barrier/{next(_barriers)}") == 1
        messages = []
        while not self._messages.empty():
            messages.append(self._messages.get())
        return messages

    def disconnect(self, code=0, **disconnect_properties):
        """Sends DISCONNECT and closes."""
        self.client.disconnect(
            ReasonCode(PacketTypes.DISCONNECT, identifier=code),
            properties(PacketTypes.DISCONNECT, disconnect_properties),
        )
        self.ended()
        self.end()

    def cut(self):
        """Closes the connection without DISCONNECT."""
        self.client.socket().shutdown(socket.SHUT_RDWR)
        self.ended()
        self.end()

    def ended(self):
        """Waits for the end of the connection; its reason code, from the server's DISCONNECT if it sent one."""
        return self._await("end").value

    def end(self):
        """Stops, in whatever state; for the fixture."""
        self.client.disconnect()
        self.client.loop_stop()
