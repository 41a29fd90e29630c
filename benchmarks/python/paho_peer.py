"""A blocking client of the state store over paho-mqtt."""

import socket
import threading
from itertools import count

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import protocol


class ResponseSlot:
    __slots__ = ("answered", "payload")

    def __init__(self):
        self.answered = threading.Event()


class PahoClient:
    """Requests of any number of threads; each waits for its own answer."""

    client_id = "paho-peer"

    def __init__(self, host, port):
        self.topic = protocol.response_topic(self.client_id)
        self.calls = {}
        self.numbers = count()
        ready = threading.Event()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, self.client_id, protocol=mqtt.MQTTv5)
        self.client.max_inflight_messages_set(1024)
        self.client.on_message = self.received
        self.client.on_connect = lambda *_: self.client.subscribe(self.topic, qos=1)
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.connect(host, port)
        # Otherwise a request waits for a delayed acknowledgement of TCP.
        self.client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client.loop_start()
        assert ready.wait(10)

    def received(self, client, userdata, message):
        call = self.calls.pop(message.properties.CorrelationData, None)
        if call:
            call.payload = message.payload
            call.answered.set()

    def request(self, payload):
        correlation = next(self.numbers).to_bytes(16, "big")
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = self.topic
        properties.CorrelationData = correlation
        properties.MessageExpiryInterval = 10
        properties.UserProperty = ("__ts", protocol.timestamp(self.client_id))
        call = self.calls[correlation] = ResponseSlot()
        self.client.publish(protocol.REQUEST, payload, qos=1, properties=properties)
        if not call.answered.wait(10):
            raise TimeoutError
        return call.payload

    def get(self, key):
        return protocol.value(self.request(protocol.get(key)))

    def set(self, key, value):
        assert self.request(protocol.set_(key, value)).startswith(b"+OK")

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()
