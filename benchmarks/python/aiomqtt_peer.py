"""A client of the state store for asyncio, over aiomqtt."""

import asyncio
import socket
from itertools import count

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import protocol


class AiomqttClient:
    client_id = "aiomqtt-peer"

    def __init__(self, host, port):
        self.topic = protocol.response_topic(self.client_id)
        self.calls = {}
        self.numbers = count()
        self.client = aiomqtt.Client(
            host,
            port,
            identifier=self.client_id,
            protocol=aiomqtt.ProtocolVersion.V5,
            max_inflight_messages=1024,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        # It warns of more than ten publishes at once.
        self.client.pending_calls_threshold = 1024

    async def __aenter__(self):
        await self.client.__aenter__()
        await self.client.subscribe(self.topic, qos=1)
        self.reader = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *args):
        self.reader.cancel()
        await self.client.__aexit__(*args)

    async def read(self):
        async for message in self.client.messages:
            future = self.calls.pop(message.properties.CorrelationData, None)
            if future and not future.done():
                future.set_result(message.payload)

    async def request(self, payload):
        correlation = next(self.numbers).to_bytes(16, "big")
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = self.topic
        properties.CorrelationData = correlation
        properties.MessageExpiryInterval = 10
        properties.UserProperty = ("__ts", protocol.timestamp(self.client_id))
        future = self.calls[correlation] = asyncio.get_running_loop().create_future()
        await self.client.publish(protocol.REQUEST, payload, qos=1, properties=properties)
        return await asyncio.wait_for(future, 10)

    async def get(self, key):
        return protocol.value(await self.request(protocol.get(key)))

    async def set(self, key, value):
        assert (await self.request(protocol.set_(key, value))).startswith(b"+OK")
