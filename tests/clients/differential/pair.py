"""Two brokers that are asked the same, and what differs in their answers."""

import collections
import re
import sys
import time

import batch
import wire

SIDES = (0, 1)
NAMES = ("Kafka", "Odradek")


class Both:
    """A value that each broker has made up for itself: a topic id, a member id."""

    def __init__(self, kafka, odradek):
        self.sides = (kafka, odradek)


def of_side(value, side):
    """What is said to one of them."""
    if isinstance(value, Both):
        return value.sides[side]
    if isinstance(value, dict):
        return {key: of_side(one, side) for key, one in value.items()}
    if isinstance(value, list):
        return [of_side(one, side) for one in value]
    return value


# What a broker makes up; the n-th of one is taken for the n-th of the other.
IDS = {"MemberId", "Leader", "ProducerId", "TopicId", "OngoingTxnProducerId", "ReplicaDirectoryId"}
NO_ID = ("", -1, None, wire.NIL)
# What no two brokers share; that it is there is compared.
OWN = {"Host", "Port", "ClusterId", "LogDir", "TotalBytes", "UsableBytes", "FinalizedFeaturesEpoch"}
WORDS = {"ErrorMessage", "BatchIndexErrorMessage", "Documentation"}
MOMENTS = {"LogAppendTimeMs", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Timestamp", "MaxTimestamp"}
# Kafka 4.3 raises them once more where a group is new; each member says its own back.
EPOCHS = {"MemberEpoch", "GroupEpoch", "AssignmentEpoch"}
# Later than every timestamp that the script gives to a record.
NOW = 1_760_000_000_000
KEYS = ("Name", "Topic", "TopicName", "GroupId", "ResourceName", "Key", "ApiKey", "PartitionIndex",
        "Partition", "Index", "PartitionId", "TopicId", "NodeId", "BrokerId", "MemberId")

# Asked once more when the answers differ: Kafka's broker learns a moment later what its controller did.
READS = {1, 2, 3, 9, 10, 15, 16, 18, 23, 32, 35, 46, 55, 60, 69, 74, 75}

Difference = collections.namedtuple("Difference", "api version what field kafka odradek")


class Table:
    """The differences that are kept on purpose, from differences.md."""

    def __init__(self, path):
        self.rows = []
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
                if line.startswith("|") and len(cells) == 7 and cells[0] not in ("API", "---"):
                    if not cells[6]:
                        sys.exit(f"{path}: a difference without a reason: {line}")
                    self.rows.append(cells)
        self.used = collections.Counter()

    def explains(self, difference):
        for index, (api, versions, what, field, kafka, odradek, _) in enumerate(self.rows):
            if (like(api, difference.api) and (versions == "*" or wire.within(difference.version, versions))
                    and like(what, difference.what) and like(field, difference.field)
                    and like(kafka, difference.kafka) and like(odradek, difference.odradek)):
                self.used[index] += 1
                return True
        return False

    def unused(self):
        return [row for index, row in enumerate(self.rows) if not self.used[index]]


def like(pattern, text):
    """`*` stands for anything, and ` or ` between what may stand there."""
    return any(re.fullmatch(".*".join(map(re.escape, one.split("*"))), text, re.DOTALL)
               for one in pattern.split(" or "))


class Pair:
    def __init__(self, addresses, apis, table):
        self.addresses = addresses
        self.apis = apis
        self.table = table
        self.connections = {}
        self.pending = collections.defaultdict(list)
        self.names = ({}, {})
        self.ids = {}
        self.requests = collections.Counter()
        self.invalid = collections.Counter()
        self.codes = collections.Counter()
        self.explained = 0
        self.unexplained = []
        # Seen once after all that patience: it does not go away.
        self.stays = set()

    # Asking.

    def connection(self, name):
        if name not in self.connections:
            self.connections[name] = [wire.Connection(address, self.apis) for address in self.addresses]
        return self.connections[name]

    def send(self, name, key, version, body, what="", bad=False, expects=True):
        """A question to both on the connection of that name."""
        for side in SIDES:
            self.connection(name)[side].send(key, version, of_side(body, side), expects)
        if expects:
            self.pending[name].append((key, version, what))
        self.requests[key, version] += 1
        self.invalid[key, version] += bad

    def receive(self, name="main", compare=True):
        """The answers of both to the oldest question, compared."""
        key, version, what = self.pending[name].pop(0)
        answers = [self.connection(name)[side].receive() for side in SIDES]
        if compare:
            self.report(self.differences(key, version, what, answers))
        return Answer(answers)

    def ask(self, key, version, body, what="", bad=False, name="main"):
        """Question and answer; what is only read is asked again if the answers differ."""
        self.send(name, key, version, body, what, bad)
        self.pending[name].pop()
        deadline = time.monotonic() + 0.6
        while True:
            answers = [self.connection(name)[side].receive() for side in SIDES]
            found = self.differences(key, version, what, answers)
            if key not in READS or time.monotonic() > deadline:
                break
            if all(self.table.explains(one) or one._replace(version=0, what="") in self.stays for one in found):
                break
            time.sleep(0.1)
            for side in SIDES:
                self.connection(name)[side].send(key, version, of_side(body, side))
        self.report(found)
        self.stays.update(one._replace(version=0, what="") for one in found)
        return Answer(answers)

    def quiet(self, key, version, body, side):
        """Asks one of them, outside of the comparison."""
        connection = self.connection("settle")[side]
        connection.send(key, version, body)
        return connection.receive()

    def close(self, name):
        for connection in self.connections.pop(name, []):
            connection.close()
        self.pending.pop(name, None)

    # Topics.

    def settle(self, *topics):
        """Waits until both lead the partitions of these topics, and learns their ids."""
        for topic in topics:
            ids = []
            for side in SIDES:
                for _ in range(200):
                    body = {"Topics": [{"Name": topic}], "AllowAutoTopicCreation": False}
                    told = self.quiet(3, 12, body, side)["Topics"][0]
                    partitions = [p["PartitionIndex"] for p in told["Partitions"]]
                    body = {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [
                        {"PartitionIndex": p, "Timestamp": -1} for p in partitions]}]}
                    ends = self.quiet(2, 7, body, side)["Topics"]
                    if partitions and not any(p["ErrorCode"] for t in ends for p in t["Partitions"]):
                        break
                    time.sleep(0.02)
                else:
                    sys.exit(f"{NAMES[side]} does not lead {topic}")
                ids.append(told["TopicId"])
            if topic not in self.ids or self.ids[topic].sides != tuple(ids):
                self.ids[topic] = Both(*ids)
                self.name(self.ids[topic], f"id of {topic}")

    def gone(self, *topics):
        """Waits until both have forgotten these topics."""
        for topic in topics:
            for side in SIDES:
                for _ in range(200):
                    body = {"Topics": [{"Name": topic}], "AllowAutoTopicCreation": False}
                    if self.quiet(3, 12, body, side)["Topics"][0]["ErrorCode"] == 3:
                        break
                    time.sleep(0.02)

    def topic(self, name, partitions=1, **configs):
        """A new topic on both."""
        configs = [{"Name": key.replace("_", "."), "Value": value} for key, value in configs.items()]
        self.ask(19, 7, {"Topics": [{"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1,
                                     "Configs": configs}], "timeoutMs": 10000}, "a new topic")
        self.settle(name)

    def name(self, both, symbol):
        for side in SIDES:
            self.names[side][both.sides[side]] = symbol

    # Comparing.

    def differences(self, key, version, what, answers):
        api = self.apis[key].name
        found = []
        self.compare("", answers[0], answers[1], found)
        return [Difference(api, version, what, *one) for one in found]

    def report(self, found):
        for difference in found:
            if self.table.explains(difference):
                self.explained += 1
            else:
                self.unexplained.append(difference)

    def compare(self, path, kafka, odradek, found):
        field = re.sub(r"\[.*\]", "", path).rsplit(".", 1)[-1]
        if field == "Records" and (isinstance(kafka, bytes) or isinstance(odradek, bytes)):
            kafka, odradek = batch.read(kafka), batch.read(odradek)
        if isinstance(kafka, dict) and isinstance(odradek, dict):
            for name in dict.fromkeys([*kafka, *odradek]):
                below = f"{path}.{name}" if path else name
                if name not in kafka or name not in odradek:
                    found.append((below, text(kafka.get(name, "absent")), text(odradek.get(name, "absent"))))
                else:
                    self.compare(below, kafka[name], odradek[name], found)
        elif isinstance(kafka, list) and isinstance(odradek, list):
            self.compare_lists(path, kafka, odradek, found)
        else:
            if field in IDS:
                kafka, odradek = self.symbols(field, kafka, odradek)
            else:
                kafka, odradek = leaf(field, kafka), leaf(field, odradek)
            if kafka != odradek:
                found.append((path, text(kafka), text(odradek)))
            elif field.endswith("ErrorCode"):
                self.codes[kafka] += 1

    def compare_lists(self, path, kafka, odradek, found):
        lists = (kafka, odradek)
        keys = [self.keys(lists[side], side) for side in SIDES]
        if keys[0] is None or keys[1] is None:
            # Of numbers or strings, or empty.
            if len(kafka) != len(odradek):
                found.append((path, text(kafka), text(odradek)))
                return
            for one, other in zip(kafka, odradek):
                self.compare(path, one, other, found)
            return
        if keys[0] != keys[1]:
            common = [[key for key in keys[side] if key in keys[1 - side]] for side in SIDES]
            if common[0] != common[1] and not path.endswith("TopicPartitions"):
                found.append((path + " order", text(common[0]), text(common[1])))
            for key in keys[0]:
                if key not in keys[1]:
                    found.append((f"{path}[{key}]", "there", "absent"))
            for key in keys[1]:
                if key not in keys[0]:
                    found.append((f"{path}[{key}]", "absent", "there"))
        other = dict(zip(keys[1], odradek))
        for key, one in zip(keys[0], kafka):
            if key in other:
                shown = f"{path}[{key}]" if path.endswith(("Configs", "ApiKeys", "Features")) else path
                self.compare(shown, one, other[key], found)

    def keys(self, values, side):
        """What the structs of a list are known by; None if it holds no structs."""
        if not values or not isinstance(values[0], dict):
            return None if values else []
        keys = []
        for value in values:
            key = ""
            for field in KEYS:
                if field in value:
                    key = value[field]
                    if field in IDS:
                        key = self.names[side].get(key, "new")
                    if key not in (None, "", wire.NIL):
                        break
            if "ResourceType" in value:
                key = f"{value['ResourceType']} {key}"
            again = sum(1 for earlier in keys if str(earlier).split(" #")[0] == str(key))
            keys.append(f"{key} #{again}" if again else str(key))
        return keys

    def symbols(self, field, kafka, odradek):
        if kafka in NO_ID or odradek in NO_ID:
            return [one if one in NO_ID else "an id" for one in (kafka, odradek)]
        known = [self.names[side].get(one) for side, one in zip(SIDES, (kafka, odradek))]
        if known == [None, None]:
            symbol = f"{field} {len(self.names[0])}"
            self.name(Both(kafka, odradek), symbol)
            return symbol, symbol
        return known


def leaf(field, value):
    if field in WORDS and value:
        return "words"
    if field in OWN and value not in (None, "", -1):
        return "its own"
    if field in MOMENTS and isinstance(value, int) and value > NOW:
        return "now"
    if field in EPOCHS and isinstance(value, int) and value > 0:
        return "an epoch"
    if field == "SessionId" and value:
        return "a session"
    return value


def text(value):
    if value == "":
        return '""'
    if isinstance(value, list):
        value = [str(one) if isinstance(one, (wire.uuid.UUID, bytes)) else one for one in value]
    return str(value).replace("|", "/").replace("\n", " ")[:400]


class Answer:
    """What both said."""

    def __init__(self, answers):
        self.answers = answers

    def both(self, *path):
        """A value of theirs, to be said back to each."""
        values = []
        for answer in self.answers:
            for step in path:
                try:
                    answer = answer[step]
                except (KeyError, IndexError, TypeError):
                    answer = None
                    break
            values.append(answer)
        return Both(*values)

    def kafka(self):
        return self.answers[0]
