"""Requests and responses as the message definitions in Kafka's own jar describe them.

A message is a dict by the names of the definitions. What a request leaves out has its default; a
field that its version does not have is not written, so one dict serves all versions. Null is written
wherever it is asked for, also where the definition does not allow it: that is one of the things that a
broker must answer well.
"""

import json
import re
import socket
import struct
import uuid
import zipfile

INTEGERS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q"}
FIXED = dict(INTEGERS, float64=">d")
NIL = uuid.UUID(int=0)


def versions(text):
    """The lowest and the highest of a range of versions; none is above all that there are."""
    if text is None or text == "none":
        return (1 << 15, 0)
    if text.endswith("+"):
        return (int(text[:-1]), 1 << 15)
    low, _, high = text.partition("-")
    return (int(low), int(high or low))


def within(version, text):
    low, high = versions(text)
    return low <= version <= high


class Api:
    """One API: both of its messages."""

    def __init__(self, request, response):
        self.key = request["apiKey"]
        self.name = request["name"].removesuffix("Request")
        self.request = request
        self.response = response

    def is_flexible(self, version):
        return within(version, self.request["flexibleVersions"])


def definitions(jar):
    """Every API in Kafka's jar of clients, by its key."""
    messages = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = archive.read(name).decode()
                text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
                text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda m: m.group(1) or "", text)
                message = json.loads(text)
                messages[message["name"]] = message
    apis = {}
    for message in messages.values():
        if message["type"] == "request":
            response = messages[message["name"].removesuffix("Request") + "Response"]
            apis[message["apiKey"]] = Api(message, response)
    return apis


class Codec:
    """One version of one message."""

    def __init__(self, message, version):
        self.message = message
        self.version = version
        self.structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
        self.flexible = within(version, message["flexibleVersions"])

    def fields(self, field):
        return field.get("fields") or self.structs[field["type"].removeprefix("[]")]

    def is_compact(self, field):
        return self.flexible and within(self.version, field.get("flexibleVersions", "0+"))

    def default(self, field):
        given = field.get("default")
        kind = field["type"]
        if given == "null":
            return None
        if kind.startswith("[]"):
            return []
        if kind in INTEGERS:
            return int(str(given or 0), 0)
        if kind == "float64":
            return float(given or 0)
        if kind == "bool":
            return given in (True, "true")
        if kind == "string":
            return given or ""
        if kind == "uuid":
            return NIL
        if kind in ("bytes", "records"):
            return b""
        return {}

    # Writing.

    def encode(self, value):
        out = bytearray()
        self.write_struct(out, self.message["fields"], value)
        return bytes(out)

    def write_struct(self, out, fields, value):
        known = {field["name"] for field in fields}
        strange = set(value) - known
        if strange:
            raise KeyError(f"{self.message['name']} has no {strange}")
        tagged = []
        for field in fields:
            if not within(self.version, field["versions"]):
                continue
            given = value.get(field["name"], self.default(field))
            if within(self.version, field.get("taggedVersions")):
                if field["name"] in value and given != self.default(field):
                    one = bytearray()
                    self.write(one, field, field["type"], given)
                    tagged.append((field["tag"], bytes(one)))
            else:
                self.write(out, field, field["type"], given)
        if self.flexible:
            write_varint(out, len(tagged))
            for tag, one in sorted(tagged):
                write_varint(out, tag)
                write_varint(out, len(one))
                out += one

    def write(self, out, field, kind, value):
        if kind in FIXED:
            out += struct.pack(FIXED[kind], value)
        elif kind == "bool":
            out.append(1 if value else 0)
        elif kind == "uuid":
            out += value.bytes
        elif kind.startswith("[]"):
            self.write_length(out, field, value, ">i")
            for element in value or []:
                self.write(out, field, kind[2:], element)
        elif kind == "string":
            value = value if value is None else value.encode()
            self.write_length(out, field, value, ">h")
            out += value or b""
        elif kind in ("bytes", "records"):
            self.write_length(out, field, value, ">i")
            out += value or b""
        else:
            if field.get("nullableVersions") and not field["type"].startswith("[]"):
                out += struct.pack(">b", -1 if value is None else 1)
                if value is None:
                    return
            self.write_struct(out, self.fields(field), value)

    def write_length(self, out, field, value, plain):
        if self.is_compact(field):
            write_varint(out, 0 if value is None else len(value) + 1)
        else:
            out += struct.pack(plain, -1 if value is None else len(value))

    # Reading.

    def decode(self, data):
        reader = Reader(data)
        value = self.read_struct(reader, self.message["fields"])
        if reader.at != len(data):
            raise ValueError(f"{len(data) - reader.at} bytes are left over")
        return value

    def read_struct(self, reader, fields):
        value = {}
        tags = {}
        for field in fields:
            if not within(self.version, field["versions"]):
                continue
            if within(self.version, field.get("taggedVersions")):
                tags[field["tag"]] = field
                value[field["name"]] = self.default(field)
            else:
                value[field["name"]] = self.read(reader, field, field["type"])
        if self.flexible:
            for _ in range(reader.varint()):
                tag = reader.varint()
                one = Reader(reader.take(reader.varint()))
                value[tags[tag]["name"]] = self.read(one, tags[tag], tags[tag]["type"])
        return value

    def read(self, reader, field, kind):
        if kind in FIXED:
            return struct.unpack(FIXED[kind], reader.take(struct.calcsize(FIXED[kind])))[0]
        if kind == "bool":
            return reader.take(1) != b"\0"
        if kind == "uuid":
            return uuid.UUID(bytes=bytes(reader.take(16)))
        if kind.startswith("[]"):
            length = self.read_length(reader, field, ">i")
            return None if length < 0 else [self.read(reader, field, kind[2:]) for _ in range(length)]
        if kind in ("string", "bytes", "records"):
            length = self.read_length(reader, field, ">h" if kind == "string" else ">i")
            if length < 0:
                return None
            data = bytes(reader.take(length))
            return data.decode() if kind == "string" else data
        if field.get("nullableVersions") and not field["type"].startswith("[]"):
            if struct.unpack(">b", reader.take(1))[0] < 0:
                return None
        return self.read_struct(reader, self.fields(field))

    def read_length(self, reader, field, plain):
        if self.is_compact(field):
            return reader.varint() - 1
        return struct.unpack(plain, reader.take(struct.calcsize(plain)))[0]


class Reader:
    def __init__(self, data):
        self.data = memoryview(data)
        self.at = 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("the response is cut off")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def write_varint(out, value):
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class Connection:
    """One connection of one client. Answers come in the order of the questions."""

    def __init__(self, address, apis, client_id="differential"):
        self.address = address
        self.apis = apis
        self.client_id = client_id
        self.socket = None
        self.asked = []
        self.count = 0

    def send(self, key, version, body, expects=True):
        """Writes a request; `version` may be one that there is not, in the form of the newest."""
        api = self.apis[key]
        newest = versions(api.request["validVersions"])[1]
        known = min(version, newest)
        if self.socket is None:
            host, port = self.address.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)), timeout=20)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.count += 1
        flexible = api.is_flexible(known)
        header = struct.pack(">hhi", key, version, self.count)
        header += struct.pack(">h", len(self.client_id)) + self.client_id.encode()
        frame = header + (b"\0" if flexible else b"") + Codec(api.request, known).encode(body)
        try:
            self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        except OSError:
            # Noticed when the answer is read.
            pass
        if expects:
            self.asked.append((self.count, api, version))

    def receive(self, timeout=4):
        """The body of the next answer; "closed" if the broker hung up, "silent" if it says nothing."""
        count, api, version = self.asked.pop(0)
        self.socket.settimeout(timeout)
        try:
            size = struct.unpack(">i", self.exactly(4))[0]
            frame = self.exactly(size)
        except (Closed, ConnectionError):
            self.close()
            return {"connection": "closed"}
        except socket.timeout:
            self.close()
            return {"connection": "silent"}
        if struct.unpack(">i", frame[:4])[0] != count:
            return {"connection": "another correlation id"}
        if api.key == 18 and frame[4:6] == b"\0\x23":
            # Of a version that it does not know, it answers in the oldest form.
            return Codec(api.response, 0).decode(frame[4:])
        tagged = 1 if api.is_flexible(version) and api.key != 18 else 0
        return Codec(api.response, version).decode(frame[4 + tagged:])

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise Closed()
            data += more
        return data

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None
        self.asked = []
