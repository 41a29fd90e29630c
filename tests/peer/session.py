"""One connection of a client that is under test: what it sends is compared, what it gets comes from the play."""

import re

import mqtt
import plays

TIMESTAMP = re.compile(r"\d{15}:\d{5}:[^:]+")


class Refused(Exception):
    """What the client sent is not what the play says."""


def raw(text):
    return text.encode("latin-1")


def pairs(properties):
    """User properties as bytes. Their order has no meaning."""
    return sorted((raw(name), raw(value)) for name, value in properties)


class Session:
    """Serves one client until it disconnects.

    Raises `Refused` for what ends the connection. A request that is not the expected one is answered with `-ERR` and
    what is wrong with it, and noted in `problems`.
    """

    def __init__(self, send, connection, problems):
        self._send, self._client_id, self._problems = send, connection.client_id, problems
        self._exchanges = [(action.name, exchange) for action in connection.actions for exchange in action.exchanges]
        # The correlation data of those whose request has come.
        self._asked = {}
        self._answered = 0
        self._packet_id = 0
        self._unacknowledged = set()
        self._pushed = None
        self._seen = set()
        self._subscribed = set()

    def serve(self, packets):
        kind, _, reader = next(packets)
        if kind != mqtt.CONNECT:
            raise Refused(f"packet {kind} before CONNECT")
        self._connect(reader)
        for kind, flags, reader in packets:
            if kind == mqtt.PUBLISH:
                self._request(flags, reader)
            elif kind == mqtt.PUBACK:
                self._unacknowledged.discard(reader.number(2))
                self._answer()
            elif kind == mqtt.SUBSCRIBE:
                self._subscribe(reader)
            elif kind == mqtt.PINGREQ:
                self._send(mqtt.packet(mqtt.PINGRESP))
            elif kind == mqtt.DISCONNECT:
                if any(reader.rest()[:1]):
                    raise Refused("the client gave the connection up: see its log")
                return
            else:
                raise Refused(f"packet {kind}")
        raise Refused("the client left without DISCONNECT")

    def unasked(self):
        """The names of the requests that never came."""
        return [name for index, (name, _) in enumerate(self._exchanges) if index not in self._asked]

    def _connect(self, reader):
        head = (reader.binary(), reader.number(1))
        reader.take(3)
        reader.properties()
        client_id = reader.binary()
        if head != (b"MQTT", 5) or client_id != raw(self._client_id):
            self._send(mqtt.connack(0x85))
            raise Refused(f"expected MQTT 5 and the client {self._client_id!r}, got {head} and {client_id}")
        self._send(mqtt.connack())

    def _subscribe(self, reader):
        packet_id = reader.number(2)
        reader.properties()
        rest = mqtt.Reader(reader.rest())
        granted = []
        while not rest.is_empty():
            self._subscribed.add(rest.binary())
            granted.append(rest.number(1) & 3)
        self._send(mqtt.suback(packet_id, granted))

    def _request(self, flags, reader):
        topic, packet_id = reader.binary(), reader.number(2)
        properties, payload = reader.properties(), reader.rest()
        self._send(mqtt.puback(packet_id))
        (correlation,) = properties.get(mqtt.CORRELATION_DATA, [b""])
        try:
            index = self._expected(payload)
            _, exchange = self._exchanges[index]
            self._compare("first byte of PUBLISH", 0x32, mqtt.PUBLISH << 4 | flags)
            self._compare("topic", raw(plays.TOPICS["request"]), topic)
            self._check(exchange, properties, correlation)
        except Refused as refused:
            self._problems.append(str(refused))
            self._respond(correlation, b"-ERR " + str(refused).encode(), plays.ANSWERED["encode"])
            return
        self._asked[index] = correlation
        self._answer()

    def _expected(self, payload):
        """Which exchange a request belongs to."""
        for index, (name, exchange) in enumerate(self._exchanges):
            if index in self._asked:
                continue
            if raw(exchange.request) == payload:
                return index
            if not exchange.on_its_own:
                raise Refused(f"{name}: expected the request {raw(exchange.request)}, got {payload}")
        raise Refused(f"expected no further request, got {payload}")

    def _check(self, exchange, properties, correlation):
        response_topic = raw(plays.response_topic(self._client_id))
        filters = {response_topic, raw(plays.notification_filter(self._client_id))}
        self._compare("topic filters", filters, self._subscribed)
        self._compare("response topic", [response_topic], properties.get(mqtt.RESPONSE_TOPIC))
        self._compare("content type", [b"application/octet-stream"], properties.get(mqtt.CONTENT_TYPE))
        self._compare("payload format", [0], properties.get(mqtt.PAYLOAD_FORMAT, [0]))
        self._compare("length of the correlation data", 16, len(correlation))
        self._compare("correlation data that was used before", False, correlation in self._seen)
        self._seen.add(correlation)
        expiry = properties.get(mqtt.MESSAGE_EXPIRY)
        self._compare("message expiry of at least 1 s", True, bool(expiry) and expiry[0] >= 1)
        self._check_user_properties(exchange.sends, properties.get(mqtt.USER_PROPERTY, []))

    def _check_user_properties(self, case, got):
        (timestamp,) = [value for name, value in got if name == b"__ts"] or [b""]
        if not TIMESTAMP.fullmatch(timestamp.decode()):
            raise Refused(f"expected a zero-padded __ts, got {timestamp}")
        self._compare("timestamp that was used before", False, timestamp in self._seen)
        self._seen.add(timestamp)
        # The time is the client's own, and so is its name.
        own = {"__ts": timestamp.decode(), "__srcId": self._client_id, "$partition": self._client_id}
        expected = [(name, own.get(name, value)) for name, value in case["encode"]]
        self._compare("user properties", pairs(expected), sorted(got))

    def _compare(self, what, expected, got):
        if expected != got:
            raise Refused(f"{what}: expected {expected}, got {got}")

    def _answer(self):
        """Answers in the order of the play, as far as the requests have come."""
        while self._answered in self._asked and not self._unacknowledged:
            _, exchange = self._exchanges[self._answered]
            if exchange.messages and self._pushed != self._answered:
                self._pushed = self._answered
                for message in exchange.messages:
                    self._push(message)
                return
            self._respond(self._asked[self._answered], raw(exchange.reply), exchange.properties)
            self._answered += 1

    def _push(self, message):
        properties = [] if message.timestamp is None else [("__ts", message.timestamp)]
        packet_id = self._next_packet_id()
        self._unacknowledged.add(packet_id)
        self._send(mqtt.publish(raw(message.topic), raw(message.payload), packet_id, self._as_bytes(properties)))

    def _respond(self, correlation, payload, properties):
        topic = raw(plays.response_topic(self._client_id))
        self._send(mqtt.publish(topic, payload, self._next_packet_id(), self._as_bytes(properties), correlation))

    def _as_bytes(self, properties):
        return [(raw(name), raw(value)) for name, value in properties]

    def _next_packet_id(self):
        self._packet_id += 1
        return self._packet_id
