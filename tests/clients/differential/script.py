"""What both brokers are asked: for each API and version, questions that are right and questions that are
wrong, in a world of topics and groups that the script itself has made.

Everything is drawn from one seed. Values come by what their field means: a topic that exists, one that
does not, a name that cannot be one.
"""

import time
import uuid

import wire
from batch import GZIP, LZ4, SNAPPY, ZSTD, batch
from pair import Both

(PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT,
 LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS,
 DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS, ALTER_CONFIGS,
 ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS, DELETE_GROUPS, ELECT_LEADERS,
 INCREMENTAL_ALTER_CONFIGS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, OFFSET_DELETE, DESCRIBE_QUORUM,
 DESCRIBE_CLUSTER, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE, LIST_CONFIG_RESOURCES,
 DESCRIBE_TOPIC_PARTITIONS) = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 33, 34,
                               35, 37, 42, 43, 44, 45, 46, 47, 55, 60, 68, 69, 74, 75)

AT_LEAST = 20
AT_LEAST_INVALID = 5

# What one node without security and transactions can answer. Not here is what a disk, a restart or other settings
# bring (14 to 16, 56, 73), and what only sessions of fetches can (71), which Odradek declines.
CODES = (1, 2, 3, 7, 10, 12, 17, 18, 21, 22, 23, 24, 25, 26, 27, 32, 35, 36, 37, 38, 39, 40, 42, 44, 45, 47, 57, 68, 69,
         70, 75, 76, 79, 81, 82, 84, 85, 86, 87, 100, 110, 111, 112, 113, 114, 115, 128)

UNKNOWN = "no.such.topic"
UNKNOWN_ID = uuid.UUID("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")
INVALID_NAMES = ["", ".", "..", "white space", "a" * 250, "slash/slash", "ümlaut"]
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

# What a consumer sends when it joins: version 0, its topics, no data of its own.
SUBSCRIPTION = bytes.fromhex("0000" "00000001" "0005") + b"three" + bytes.fromhex("ffffffff")

# The topics of the world, with how many partitions and which configs.
WORLD = {
    "plain": (1, {}),
    "three": (3, {}),
    "empty": (2, {}),
    "compact": (1, {"cleanup_policy": "compact"}),
    "small": (1, {"max_message_bytes": "200"}),
    "stamped": (1, {"message_timestamp_type": "LogAppendTime"}),
    "lonely": (1, {"min_insync_replicas": "2"}),
    "strict": (1, {"message_timestamp_before_max_ms": "1000"}),
    "narrow": (1, {"segment_bytes": "1048576", "max_message_bytes": "4000000"}),
}


class Script:
    def __init__(self, pair, rng, short=False):
        self.p = pair
        self.rng = rng
        self.short = short
        self.fresh = 0
        self.api = self.v = None

    def name(self, kind):
        """A name that nothing has had."""
        self.fresh += 1
        return f"{kind}-{self.fresh}"

    def ok(self, body, what=""):
        return self.p.ask(self.api, self.v, body, what)

    def bad(self, body, what):
        return self.p.ask(self.api, self.v, body, what, bad=True)

    def one_of(self, *values):
        return self.rng.choice(values)

    def topic(self, name):
        """Both names of a topic: by name and by id."""
        return self.p.ids.get(name, UNKNOWN_ID)

    def build_world(self):
        for name, (partitions, configs) in WORLD.items():
            self.p.topic(name, partitions, **configs)
        self.api, self.v = PRODUCE, 9
        for name in ("plain", "three", "stamped"):
            for partition in range(WORLD[name][0]):
                for number in range(4):
                    records = [(b"key %d" % i, b"value %d" % number) for i in range(number + 1)]
                    self.ok(self.produce_body(name, partition, batch(records, timestamp=1_700_000_000_000
                                              + 1000 * number, codec=GZIP if number == 2 else 0)))
        self.api, self.v = FIND_COORDINATOR, 0
        self.ok({"Key": "group"}, "the first group")
        for side in (0, 1):
            self.ready(side)
            for _ in range(300):
                body = {"GroupId": "group", "Topics": [{"Name": "plain", "PartitionIndexes": [0]}]}
                if self.p.quiet(OFFSET_FETCH, 7, body, side)["ErrorCode"] == 0:
                    break
                time.sleep(0.05)
        self.api, self.v = OFFSET_COMMIT, 7
        for group in ("committed", "other"):
            self.ok({"GroupId": group, "Topics": [
                {"Name": "plain", "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 3,
                                                  "CommittedMetadata": "so far"}]},
                {"Name": "three", "Partitions": [{"PartitionIndex": p, "CommittedOffset": p} for p in (0, 2)]}]})

    def ready(self, side):
        """Waits until one of them hands out producer ids."""
        for _ in range(300):
            body = {"TransactionalId": None, "TransactionTimeoutMs": 1000}
            if self.p.quiet(INIT_PRODUCER_ID, 4, body, side)["ErrorCode"] == 0:
                return
            time.sleep(0.05)

    def run(self, apis, versions, definitions):
        """All versions of these APIs, each at least so often."""
        for api in apis:
            low, high = versions[api]
            chosen = range(low, high + 1)
            if self.short:
                chosen = sorted({low, high, self.rng.randint(low, high)})
            for self.v in chosen:
                self.api = api
                begun, before = time.monotonic(), sum(self.p.requests.values())
                self.one_version()
                took = time.monotonic() - begun
                print(f"{definitions[api].name} v{self.v}: {sum(self.p.requests.values()) - before} requests, "
                      f"{len(set(self.p.unexplained))} kinds of differences so far, {took:.1f} s", flush=True)

    def one_version(self):
        api, v = self.api, self.v
        scenario = getattr(self, SCENARIOS[api])
        count = lambda: self.p.requests[api, v]
        before = count()
        while count() - before < AT_LEAST:
            scenario()
            self.api, self.v = api, v
        self.nulls()

    def nulls(self):
        """Null in the first list or string that does not allow it, and a version that there is not."""
        api = self.p.apis[self.api]
        for field in api.request["fields"]:
            kind = field["type"]
            if not wire.within(self.v, field["versions"]) or wire.within(self.v, field.get("nullableVersions")):
                continue
            if wire.within(self.v, field.get("taggedVersions")):
                continue
            if kind.startswith("[]") or kind == "string":
                self.bad({field["name"]: None}, f"null for {field['name']}")
                break
        self.p.ask(self.api, wire.versions(api.request["validVersions"])[1] + 1, {}, "a version too high")

    # Records.

    def produce_body(self, topic, partition, records, acks=-1, timeout=10000, **more):
        return {"Acks": acks, "TimeoutMs": timeout, **more, "TopicData": [
            {"Name": topic, "TopicId": self.topic(topic),
             "PartitionData": [{"Index": partition, "Records": records}]}]}

    def produce(self):
        rng = self.rng
        two = [(b"k1", b"v1"), (b"k2", b"v2")]
        send = lambda topic, records, what, partition=0, **more: self.bad(
            self.produce_body(topic, partition, records, **more), what)
        for _ in range(4):
            records = [(rng.choice([b"k", b"", None]), rng.choice([b"v", b"", None, b"v" * 50]),
                        rng.choice([(), [(b"h", b"1"), (b"h", None)]])) for _ in range(rng.randint(1, 4))]
            self.ok(self.produce_body("three", rng.randint(0, 2), batch(records, codec=rng.choice([0, GZIP])),
                                      acks=rng.choice([1, -1])))
        self.ok({"Acks": -1, "TimeoutMs": 1000, "TopicData": []}, "no topic")
        self.bad(self.produce_body("three", 0, batch(two), timeout=0), "no time at all")
        self.ok({"Acks": 1, "TimeoutMs": 9000, "TopicData": [
            {"Name": "three", "TopicId": self.topic("three"),
             "PartitionData": [{"Index": i, "Records": batch(two)} for i in (2, 0)]},
            {"Name": "plain", "TopicId": self.topic("plain"),
             "PartitionData": [{"Index": 0, "Records": batch(two)}]}]}, "several partitions")
        self.ok(self.produce_body("stamped", 0, batch(two)), "log append time")
        self.ok(self.produce_body("compact", 0, batch(two)), "a compacted topic")
        self.ok(self.produce_body("small", 0, batch(two, timestamp=0)), "of 1970")
        self.ok(self.produce_body("plain", 0, batch(two), timeout=-1), "a negative timeout")
        send(UNKNOWN, batch(two), "unknown topic")
        send("three", batch(two), "unknown partition", partition=9)
        send("three", batch(two), "negative partition", partition=-1)
        send("plain", batch(two), "acks of 2", acks=2)
        send("plain", batch(two), "acks of -2", acks=-2)
        send("plain", batch(two, damage="crc"), "a wrong checksum")
        send("plain", batch(two, damage="size"), "a batch longer than its bytes")
        send("plain", batch(two, magic=1), "an old format")
        send("plain", batch(two, magic=3), "a format of the future")
        send("plain", batch(two, count=3), "a wrong count")
        send("plain", batch(two, last_offset_delta=5), "a wrong last offset")
        send("plain", batch([]), "a batch of nothing")
        send("plain", b"", "no batch")
        if self.v == 13:
            # Kafka says nothing, so once is enough.
            send("plain", None, "null for records")
        send("plain", batch(two) + batch(two), "two batches")
        send("plain", batch(two, attributes=0x20), "a control batch")
        send("plain", batch(two, attributes=0x10), "a transactional batch without a transaction")
        send("plain", batch(two, codec=ZSTD), "no zstd in a zstd batch")
        send("plain", batch(two, codec=LZ4), "no lz4 in an lz4 batch")
        send("plain", batch(two, codec=SNAPPY), "no snappy in a snappy batch")
        send("plain", batch(two, codec=5), "an unknown codec")
        send("plain", batch(two, base_offset=7), "a base offset of its own")
        send("plain", batch(two, timestamp=-1), "no timestamp")
        send("plain", batch(two, timestamp=1 << 60), "a timestamp of the far future")
        send("small", batch([(b"k", b"v" * 300)]), "too large")
        send("small", batch([(b"k", b"v" * 300)], codec=GZIP), "too large until compressed")
        if self.v in (3, 13):
            # A checksum of so much takes the script a while.
            send("narrow", batch([(b"k", b"v" * 1_100_000)]), "larger than a segment")
        send("lonely", batch(two), "too few replicas")
        send("lonely", batch(two), "too few replicas for acks of 1", acks=1)
        send("strict", batch(two), "too old")
        send("compact", batch([(None, b"v")]), "no key in a compacted topic")
        send("compact", batch([(b"k", b"v"), (None, b"v"), (None, None)]), "two of three without a key")
        send("__consumer_offsets", batch(two), "an internal topic")
        self.sequences(two)
        if self.v >= 3:
            # Without an answer; the next question shows that the connection still stands.
            self.p.send("main", PRODUCE, self.v, self.produce_body("plain", 0, batch(two), acks=0), expects=False)
            self.ok(self.produce_body("plain", 0, batch(two)), "after acks of 0")

    def sequences(self, two):
        """What an idempotent producer may do wrong."""
        told = self.p.ask(INIT_PRODUCER_ID, 4, {"TransactionalId": None, "TransactionTimeoutMs": 1000})
        producer = told.both("ProducerId").sides

        def send(what, epoch, sequence, bad=True, topic="empty"):
            batches = [batch(two, producer=(one, epoch, sequence)) for one in producer]
            body = self.produce_body(topic, 0, Both(*batches))
            self.p.ask(PRODUCE, self.v, body, what, bad)

        send("first sequence", 0, 0, bad=False)
        send("next sequence", 0, 2, bad=False)
        send("the same once more", 0, 2, bad=False)
        send("a gap", 0, 9)
        send("a sequence of the past", 0, 1)
        send("a negative sequence", 0, -5)
        send("a later epoch, not from the start", 2, 5)
        send("a later epoch", 1, 0, bad=False)
        send("an epoch of the past", 0, 4)
        send("an unknown producer in the middle", 0, 40, topic="plain")

    def fetch_body(self, topic="three", partition=0, offset=0, epoch=-1, limit=1 << 20, **more):
        return {"ReplicaId": -1, "MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 1 << 20, "SessionEpoch": -1, **more,
                "Topics": [{"Topic": topic, "TopicId": self.topic(topic), "Partitions": [
                    {"Partition": partition, "CurrentLeaderEpoch": epoch, "FetchOffset": offset,
                     "PartitionMaxBytes": limit}]}]}

    def fetch(self):
        rng = self.rng
        f = self.fetch_body
        for _ in range(6):
            self.ok(f(partition=rng.randint(0, 2), offset=rng.randint(0, 9), limit=rng.choice([1, 100, 1 << 20]),
                      IsolationLevel=rng.randint(0, 1), MaxBytes=rng.choice([1, 200, 1 << 20])))
        self.ok(f("plain", offset=0), "the beginning")
        self.ok(f("stamped"), "log append time")
        self.ok(f("empty", 1), "an empty partition")
        self.ok(f("empty", 1, MaxWaitMs=30, MinBytes=1000), "a wait")
        self.ok(f("empty", 1, MaxWaitMs=-5), "a negative wait")
        self.ok(f(MinBytes=0, MaxWaitMs=100), "no bytes wanted")
        self.ok(f(limit=0), "no bytes allowed in a partition")
        self.ok(f(MaxBytes=0), "no bytes allowed")
        self.ok(f(epoch=0), "the current epoch")
        several = f()
        several["Topics"][0]["Partitions"] = [
            {"Partition": p, "FetchOffset": o, "PartitionMaxBytes": 150} for p, o in ((2, 0), (0, 1), (1, 2))]
        self.ok(several, "several partitions")
        self.ok({**f(), "Topics": []}, "no topic")
        self.ok(f(RackId="rack"), "a rack")
        self.bad(f(UNKNOWN), "unknown topic")
        self.bad(f(partition=7), "unknown partition")
        self.bad(f(partition=-1), "negative partition")
        self.bad(f(offset=10 ** 6), "beyond the end")
        self.bad(f(offset=-1), "a negative offset")
        self.bad(f(limit=-1), "a negative limit of a partition")
        self.bad(f(MaxBytes=-1), "a negative limit")
        self.bad(f(IsolationLevel=9), "an unknown isolation")
        self.bad(f(epoch=5), "an epoch of the future")
        self.bad(f(epoch=-2), "an epoch of the past")
        self.bad(f(SessionId=4711, SessionEpoch=3), "an unknown session")
        self.bad(f(SessionId=4711, SessionEpoch=-1), "the end of an unknown session")
        self.bad(f(SessionId=0, SessionEpoch=5), "a session without a number")
        self.bad(f(SessionId=0, SessionEpoch=0), "a new session")
        self.bad({**f(), "Topics": f()["Topics"] + f("plain")["Topics"] + f()["Topics"]}, "a topic twice")
        two = f()
        two["Topics"][0]["Partitions"] *= 2
        self.bad(two, "a partition twice")
        diverging = f(epoch=0)
        diverging["Topics"][0]["Partitions"][0]["LastFetchedEpoch"] = 7
        self.bad(diverging, "an epoch that diverges")

    def list_offsets(self):
        def body(topic="three", partition=0, timestamp=-1, epoch=-1, **more):
            return {"ReplicaId": -1, **more, "Topics": [{"Name": topic, "Partitions": [
                {"PartitionIndex": partition, "CurrentLeaderEpoch": epoch, "Timestamp": timestamp}]}]}
        for timestamp in (-1, -2, -3, -4, -5, -6):
            self.ok(body(timestamp=timestamp), f"timestamp {timestamp}")
            self.ok(body("empty", 1, timestamp=timestamp), f"timestamp {timestamp}, empty")
        for _ in range(4):
            self.ok(body(self.one_of("three", "plain"), 0, 1_700_000_000_000 + self.rng.randint(-2000, 5000)))
        self.ok(body("stamped", timestamp=-3), "log append time")
        self.ok(body(IsolationLevel=1), "read committed")
        self.ok(body(epoch=0), "the current epoch")
        self.ok(body(timestamp=0), "of 1970")
        self.ok(body(TimeoutMs=-1), "a negative timeout")
        self.ok({"ReplicaId": -1, "Topics": []}, "no topic")
        self.bad(body(UNKNOWN), "unknown topic")
        self.bad(body(""), "no name")
        self.bad(body(partition=9), "unknown partition")
        self.bad(body(partition=-1), "negative partition")
        self.bad(body(timestamp=-7), "timestamp -7")
        self.bad(body(timestamp=-100), "timestamp -100")
        self.bad(body(epoch=9), "an epoch of the future")
        self.bad(body(IsolationLevel=7), "an unknown isolation")
        self.bad(body(ReplicaId=5), "as a replica")
        self.bad(body(ReplicaId=-2), "as a debugger")
        twice = body()
        twice["Topics"][0]["Partitions"] *= 2
        self.bad(twice, "a partition twice")

    def metadata(self):
        def body(*topics, **more):
            return {"Topics": [{"Name": one} for one in topics], "AllowAutoTopicCreation": False, **more}
        names = list(WORLD)
        for _ in range(6):
            self.ok(body(*self.rng.sample(names, self.rng.randint(1, 4))))
        self.ok(body("plain", IncludeTopicAuthorizedOperations=True), "with what is allowed")
        self.ok(body("plain", IncludeClusterAuthorizedOperations=True), "with what is allowed here")
        self.ok(body("plain", "plain"), "a topic twice")
        if self.v >= 1:
            self.ok({"Topics": []}, "no topic")
            self.ok({"Topics": None}, "every topic")
        made = self.name("made-by-use")
        self.ok({"Topics": [{"Name": made}], "AllowAutoTopicCreation": True}, "made by use")
        self.p.settle(made)
        self.ok(body(made))
        if self.v >= 4:
            # Below, there is no flag, and asking makes the topic.
            self.bad(body(UNKNOWN), "unknown topic")
            self.bad(body("plain", UNKNOWN, "three"), "an unknown topic among others")
        for name in INVALID_NAMES:
            self.bad(body(name), "an invalid name")
        self.bad({"Topics": [{"Name": "not a name"}], "AllowAutoTopicCreation": True}, "an invalid name to make")
        if self.v >= 10:
            self.ok({"Topics": [{"TopicId": self.topic("three"), "Name": None}]}, "by id")
            self.bad({"Topics": [{"TopicId": UNKNOWN_ID, "Name": None}]}, "by an unknown id")
            self.bad({"Topics": [{"TopicId": self.topic("three"), "Name": "plain"}]}, "by id and name")
            self.bad({"Topics": [{"Name": None}]}, "by nothing")

    # Topics.

    def create_topics(self):
        def topic(name=None, partitions=1, factor=1, configs=(), assignments=()):
            name = self.name("created") if name is None else name
            return {"Name": name, "NumPartitions": partitions, "ReplicationFactor": factor,
                    "Configs": [{"Name": key, "Value": value} for key, value in configs],
                    "Assignments": [{"PartitionIndex": p, "BrokerIds": b} for p, b in assignments]}

        def body(*topics, **more):
            return {"Topics": list(topics), "timeoutMs": 10000, **more}
        self.ok(body(topic()))
        self.ok(body(topic(partitions=3), topic(partitions=2)), "two")
        self.ok(body(topic(configs=[("retention.ms", "1000"), ("cleanup.policy", "compact,delete")])), "configs")
        self.ok(body(topic(), validateOnly=True), "only checked")
        self.ok(body(topic(partitions=-1, factor=-1)), "defaults")
        self.ok(body(topic(partitions=-1, factor=-1, assignments=[(0, [0]), (1, [0])])), "an assignment")
        self.ok(body(), "none")
        self.bad(body(topic("plain")), "one that is there")
        self.bad(body(topic("plain"), topic()), "one that is there, and one that is not")
        twice = self.name("created")
        self.bad(body(topic(twice), topic(twice)), "one twice")
        for name in INVALID_NAMES:
            self.bad(body(topic(name)), "an invalid name")
        self.ok(body(topic("with.dot")), "a dot")
        self.bad(body(topic("with_dot")), "a name that collides")
        self.bad(body(topic(partitions=0)), "no partitions")
        self.bad(body(topic(partitions=-2)), "negative partitions")
        self.bad(body(topic(factor=0)), "no replicas")
        self.bad(body(topic(factor=3)), "too many replicas")
        self.bad(body(topic(configs=[("no.such.config", "1")])), "an unknown config")
        self.bad(body(topic(configs=[("retention.ms", "soon")])), "no number")
        self.bad(body(topic(configs=[("retention.ms", None)])), "null for a config")
        self.bad(body(topic(configs=[("retention.ms", "-2")])), "out of bounds")
        self.bad(body(topic(configs=[("segment.bytes", "100")])), "a segment too small")
        self.bad(body(topic(configs=[("cleanup.policy", "shred")])), "no such policy")
        self.bad(body(topic(configs=[("retention.ms", "1"), ("retention.ms", "2")])), "a config twice")
        self.bad(body(topic(partitions=2, assignments=[(0, [0])])), "number and assignment")
        self.bad(body(topic(partitions=-1, factor=-1, assignments=[(0, [9])])), "an unknown broker")
        self.bad(body(topic(partitions=-1, factor=-1, assignments=[(0, [])])), "nobody in an assignment")
        self.bad(body(topic(partitions=-1, factor=-1, assignments=[(0, [0, 0])])), "a broker twice")
        self.bad(body(topic(partitions=-1, factor=-1, assignments=[(1, [0])])), "an assignment with a gap")
        self.bad(body(topic(partitions=-1, factor=-1, assignments=[(0, [0]), (0, [0])])), "a partition twice")
        self.bad(body(topic("__consumer_offsets")), "an internal topic")
        self.bad(body(topic(), timeoutMs=-1), "a negative timeout")

    def delete_topics(self):
        def body(*topics, **more):
            return {"Topics": [{"Name": one} for one in topics], "TopicNames": list(topics), "TimeoutMs": 10000,
                    **more}
        for _ in range(3):
            name = self.name("deleted")
            self.p.topic(name)
            self.ok(body(name))
            self.p.gone(name)
            self.bad(body(name), "one that was deleted")
        names = [self.name("deleted"), self.name("deleted")]
        for name in names:
            self.p.topic(name)
        self.ok(body(names[0], UNKNOWN, names[1]), "several")
        self.p.gone(*names)
        self.ok(body(), "none")
        self.bad(body(UNKNOWN), "unknown topic")
        self.bad(body(UNKNOWN, UNKNOWN), "an unknown topic twice")
        for name in INVALID_NAMES:
            self.bad(body(name), "an invalid name")
        self.bad(body(UNKNOWN, TimeoutMs=-1), "a negative timeout")
        if self.v >= 6:
            name = self.name("deleted")
            self.p.topic(name)
            by_id = lambda one: {"Topics": [{"Name": None, "TopicId": one}], "TimeoutMs": 10000}
            self.ok(by_id(self.topic(name)), "by id")
            self.p.gone(name)
            self.bad(by_id(self.topic(name)), "the id of one that was deleted")
            self.bad(by_id(UNKNOWN_ID), "an unknown id")
            self.bad(by_id(wire.NIL), "neither name nor id")
            self.bad({"Topics": [{"Name": "plain", "TopicId": self.topic("plain")}], "TimeoutMs": 1000},
                     "by name and id")
        twice = self.name("deleted")
        self.p.topic(twice)
        self.bad(body(twice, twice), "one twice")

    def create_partitions(self):
        def topic(name, count, assignments=None):
            if assignments is not None:
                assignments = [{"BrokerIds": one} for one in assignments]
            return {"Name": name, "Count": count, "Assignments": assignments}

        def body(*topics, **more):
            return {"Topics": list(topics), "TimeoutMs": 10000, "ValidateOnly": False, **more}
        name = self.name("grown")
        self.p.topic(name)
        self.ok(body(topic(name, 2)))
        self.ok(body(topic(name, 4, [[0], [0]])), "an assignment")
        self.ok(body(topic(name, 6), ValidateOnly=True), "only checked")
        self.p.settle(name)
        self.ok(body(), "none")
        self.bad(body(topic(name, 4)), "as many as there are")
        self.bad(body(topic(name, 1)), "fewer")
        self.bad(body(topic(name, 0)), "none at all")
        self.bad(body(topic(name, -1)), "a negative number")
        self.bad(body(topic(UNKNOWN, 3)), "unknown topic")
        self.bad(body(topic("", 3)), "no name")
        self.bad(body(topic(name, 6, [[0]])), "an assignment too short")
        self.bad(body(topic(name, 5, [[0], [0]])), "an assignment too long")
        self.bad(body(topic(name, 5, [[9]])), "an unknown broker")
        self.bad(body(topic(name, 5, [[]])), "nobody in an assignment")
        self.bad(body(topic(name, 5, [[0, 0]])), "a broker twice")
        self.bad(body(topic(name, 5, [])), "an empty assignment")
        self.bad(body(topic(name, 5), topic(name, 6)), "one twice")
        self.bad(body(topic(name, 5), topic(UNKNOWN, 5), ValidateOnly=True), "one of two unknown")
        self.ok(body(topic(name, 5), TimeoutMs=-1, ValidateOnly=True), "a negative timeout")
        self.p.settle(name)

    def delete_records(self):
        def body(topic, *partitions, **more):
            return {"TimeoutMs": 10000, **more, "Topics": [{"Name": topic, "Partitions": [
                {"PartitionIndex": p, "Offset": o} for p, o in partitions]}]}
        name = self.name("trimmed")
        self.p.topic(name, 2)
        for _ in range(3):
            self.p.ask(PRODUCE, 9, self.produce_body(name, 0, batch([(b"k", b"v"), (b"k", b"v")])))
        for offset in (0, 1, 1, 3, 2):
            self.ok(body(name, (0, offset)), f"up to {offset}")
        self.p.ask(FETCH, 12, self.fetch_body(name, 0, 1), "below the start", bad=True)
        self.ok(body(name, (0, 4), (1, 0)), "two partitions")
        self.ok(body(name, (0, -1)), "everything")
        self.ok(body(name, (0, 6)), "up to the end")
        self.ok(body(name), "no partition")
        self.ok({"Topics": [], "TimeoutMs": 100}, "no topic")
        self.ok(body(name, (0, 6), TimeoutMs=-1), "a negative timeout")
        self.bad(body(name, (0, 7)), "beyond the end")
        self.bad(body(name, (0, -2)), "a negative offset")
        self.bad(body(name, (5, 0)), "unknown partition")
        self.bad(body(name, (-1, 0)), "negative partition")
        self.bad(body(UNKNOWN, (0, 0)), "unknown topic")
        self.bad(body("", (0, 0)), "no name")
        self.bad(body("compact", (0, 0)), "a compacted topic")
        self.bad(body(name, (0, 1), (0, 2)), "a partition twice")
        self.bad(body("__consumer_offsets", (0, 1)), "an internal topic")

    # The broker.

    def api_versions(self):
        body = lambda name="client", version="1.0": {"ClientSoftwareName": name, "ClientSoftwareVersion": version}
        for name in ("client", "a", "A.b-c", "x1"):
            for version in ("1.0", "2", "v-1.0.x"):
                self.ok(body(name, version))
        for name, version in (("", "1"), ("a", ""), ("white space", "1"), ("-a", "1"), ("a-", "1"), ("a", "1/2"),
                              ("ü", "1"), ("a" * 300, "1")):
            self.bad(body(name, version), "an invalid client")

    def describe_cluster(self):
        for operations in (False, True):
            for fenced in (False, True):
                for _ in range(3):
                    self.ok({"IncludeClusterAuthorizedOperations": operations, "IncludeFencedBrokers": fenced})
        for endpoint in (0, 2, 3, -1, 100, 127):
            self.bad({"EndpointType": endpoint}, f"endpoint type {endpoint}")

    def describe_quorum(self):
        def body(topic, *partitions):
            return {"Topics": [{"TopicName": topic, "Partitions": [{"PartitionIndex": p} for p in partitions]}]}
        for _ in range(8):
            self.ok(body("__cluster_metadata", 0))
        self.bad(body("__cluster_metadata"), "no partition")
        self.bad({"Topics": []}, "no topic")
        self.bad(body("plain", 0), "another topic")
        self.bad(body(UNKNOWN, 0), "unknown topic")
        self.bad(body("__cluster_metadata", 1), "another partition")
        self.bad(body("__cluster_metadata", -1), "negative partition")
        self.bad(body("__cluster_metadata", 0, 1), "one partition too many")
        self.bad(body("__cluster_metadata", 0, 0), "a partition twice")
        self.bad({"Topics": body("__cluster_metadata", 0)["Topics"] + body("plain", 0)["Topics"]}, "two topics")

    def describe_log_dirs(self):
        def body(*topics):
            return {"Topics": [{"Topic": t, "Partitions": list(p)} for t, p in topics]}
        for _ in range(4):
            self.ok(body(("three", [self.rng.randint(0, 2)])))
        self.ok(body(("plain", [0]), ("three", [2, 0])), "several")
        self.ok(body(), "none")
        self.ok(body(("empty", [0, 1])), "an empty one")
        self.ok(body(("three", [])), "no partition")
        self.bad(body((UNKNOWN, [0])), "unknown topic")
        self.bad(body(("", [0])), "no name")
        self.bad(body(("three", [9])), "unknown partition")
        self.bad(body(("three", [-1])), "negative partition")
        self.bad(body(("three", [0, 0])), "a partition twice")
        self.bad(body(("three", [0]), ("three", [1])), "a topic twice")

    def alter_replica_log_dirs(self):
        def body(path, topic="three", partitions=(0,)):
            return {"Dirs": [{"Path": path, "Topics": [{"Name": topic, "Partitions": list(partitions)}]}]}
        here = [self.p.quiet(DESCRIBE_LOG_DIRS, 1, {"Topics": []}, side)["Results"][0]["LogDir"] for side in (0, 1)]
        here = Both(*here)
        for _ in range(4):
            self.ok(body(here, "three", [self.rng.randint(0, 2)]), "where it is")
        self.ok(body(here, "three", [2, 0]), "where they are")
        self.ok({"Dirs": []}, "none")
        self.ok(body(here, "three", []), "no partition")
        self.bad(body("/nowhere"), "an unknown folder")
        self.bad(body("relative"), "a relative folder")
        self.bad(body(""), "no folder")
        self.bad(body(here, UNKNOWN), "unknown topic")
        self.bad(body("/nowhere", UNKNOWN), "unknown topic in an unknown folder")
        self.bad(body(here, "three", [9]), "unknown partition")
        self.bad(body(here, "three", [-1]), "negative partition")
        self.bad(body(here, ""), "no name")

    def elect_leaders(self):
        def body(topic="three", partitions=(0,), kind=0, **more):
            return {"ElectionType": kind, "TimeoutMs": 10000, **more,
                    "TopicPartitions": [{"Topic": topic, "Partitions": list(partitions)}]}
        for kind in (0, 1):
            self.ok(body(kind=kind))
            self.ok(body("three", [2, 0], kind), "several")
            self.bad(body(UNKNOWN, [0], kind), "unknown topic")
            self.bad(body("three", [0, 9], kind), "unknown partition")
        self.ok(body("plain"))
        self.ok({"ElectionType": 0, "TopicPartitions": [], "TimeoutMs": 1000}, "none")
        self.ok({"ElectionType": 0, "TopicPartitions": None, "TimeoutMs": 1000}, "all")
        self.ok(body(TimeoutMs=-1), "a negative timeout")
        self.bad(body(kind=2), "an unknown kind")
        self.bad(body(kind=-1), "a negative kind")
        self.bad(body("", [0]), "no name")
        self.bad(body("three", [-1]), "negative partition")
        self.bad(body("three", []), "no partition")
        self.bad(body("three", [0, 0]), "a partition twice")

    def alter_reassignments(self):
        def body(topic, partition, replicas, **more):
            return {"TimeoutMs": 10000, **more, "Topics": [{"Name": topic, "Partitions": [
                {"PartitionIndex": partition, "Replicas": replicas}]}]}
        for _ in range(5):
            self.ok(body("three", self.rng.randint(0, 2), [0]), "where it is")
        self.ok({"Topics": []}, "none")
        self.ok(body("three", 0, [0], AllowReplicationFactorChange=False), "no other number of replicas")
        self.ok(body("three", 0, [0], TimeoutMs=-1), "a negative timeout")
        self.bad(body("three", 0, None), "a cancel")
        self.bad(body("three", 0, []), "nobody")
        self.bad(body("three", 0, [1]), "an unknown broker")
        self.bad(body("three", 0, [0, 1]), "one more broker")
        self.bad(body("three", 0, [0, 0]), "a broker twice")
        self.bad(body("three", 0, [-1]), "a negative broker")
        self.bad(body("three", 9, [0]), "unknown partition")
        self.bad(body("three", -1, [0]), "negative partition")
        self.bad(body(UNKNOWN, 0, [0]), "unknown topic")
        self.bad(body("", 0, [0]), "no name")
        self.bad(body(UNKNOWN, 0, None), "a cancel of an unknown topic")

    def list_reassignments(self):
        def body(*topics, **more):
            return {"TimeoutMs": 10000, **more,
                    "Topics": [{"Name": t, "PartitionIndexes": list(p)} for t, p in topics]}
        for _ in range(4):
            self.ok(body(("three", [self.rng.randint(0, 2)])))
        self.ok(body(("three", [0, 1]), ("plain", [0])), "several")
        self.ok({"Topics": None}, "all")
        self.ok(body(), "none")
        self.ok(body(("three", [])), "no partition")
        self.ok(body(("three", [0]), TimeoutMs=-1), "a negative timeout")
        self.bad(body((UNKNOWN, [0])), "unknown topic")
        self.bad(body(("three", [9])), "unknown partition")
        self.bad(body(("three", [-1])), "negative partition")
        self.bad(body(("", [0])), "no name")
        self.bad(body(("three", [0, 0])), "a partition twice")

    def describe_topic_partitions(self):
        def body(*topics, limit=2000, cursor=None):
            if cursor:
                cursor = {"TopicName": cursor[0], "PartitionIndex": cursor[1]}
            return {"Topics": [{"Name": one} for one in topics], "ResponsePartitionLimit": limit, "Cursor": cursor}
        self.ok(body("three"))
        self.ok(body("three", "plain"), "not in their order")
        self.ok(body("three", "plain", "empty", limit=2), "a small page")
        self.ok(body("three", "plain", limit=3), "a page that ends with a topic")
        self.ok(body("plain", "three", cursor=("three", 1)), "a cursor")
        self.ok(body("plain", "three", cursor=("plain", 0), limit=2), "a cursor and a page")
        self.ok(body("plain", "plain"), "a topic twice")
        self.ok(body("three", cursor=("three", 99)), "a cursor beyond the topic")
        self.ok(body("three", cursor=("zzz", 0)), "a cursor beyond all")
        self.ok(body("three", "plain", cursor=("q", 0)), "a cursor between topics")
        self.bad(body(UNKNOWN), "unknown topic")
        self.bad(body("plain", UNKNOWN, "three"), "an unknown topic among others")
        for name in INVALID_NAMES:
            self.bad(body(name), "an invalid name")
        self.bad(body("three", limit=0), "no page")
        self.bad(body("three", limit=-1), "a negative page")
        self.bad(body("three", cursor=("three", -1)), "a negative cursor")

    # Configs.

    def describe_configs(self):
        def body(kind=TOPIC, name="plain", keys=None, **more):
            return {"Resources": [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}], **more}
        self.ok(body(), "all of a topic")
        self.ok(body(IncludeSynonyms=True, IncludeDocumentation=True), "all of a topic, with everything")
        for topic in ("compact", "small", "stamped"):
            for keys in (["cleanup.policy"], ["max.message.bytes", "retention.ms"], ["message.timestamp.type"]):
                self.ok(body(TOPIC, topic, keys, IncludeSynonyms=self.one_of(False, True)), "some of a topic")
        self.ok(body(TOPIC, "plain", []), "no keys")
        self.ok(body(BROKER, "0"), "all of the broker")
        self.ok(body(BROKER, "0", ["log.retention.ms", "num.partitions"], IncludeSynonyms=True), "some of the broker")
        self.ok(body(BROKER, "", ["log.retention.ms"]), "the default of brokers")
        self.ok({"Resources": []}, "none")
        self.ok({"Resources": body()["Resources"] * 2}, "a resource twice")
        self.bad(body(TOPIC, UNKNOWN), "unknown topic")
        self.bad(body(TOPIC, ""), "no name")
        self.bad(body(TOPIC, "not a name"), "an invalid name")
        self.bad(body(BROKER, "9"), "an unknown broker")
        self.bad(body(BROKER, "one"), "a broker that is no number")
        self.bad(body(99, "plain"), "an unknown type")
        self.bad(body(0, "plain"), "type 0")
        self.bad(body(-1, "plain"), "a negative type")
        self.bad(body(TOPIC, "plain", ["no.such.config"]), "an unknown config")
        self.bad(body(TOPIC, None), "null for a name")
        self.ok(body(GROUP, "committed", ["consumer.session.timeout.ms"]), "a group")
        self.bad(body(CLIENT_METRICS, "no-such"), "unknown metrics")
        self.bad(body(BROKER_LOGGER, "9"), "loggers of an unknown broker")

    def after_configs(self, topic):
        """What the change has made of it."""
        self.p.ask(DESCRIBE_CONFIGS, 4, {"Resources": [
            {"ResourceType": TOPIC, "ResourceName": topic,
             "ConfigurationKeys": ["retention.ms", "cleanup.policy", "segment.bytes", "compression.type"]}]},
            "after a change")

    def alter_configs(self):
        def body(kind, name, *configs, **more):
            return {"ValidateOnly": False, **more, "Resources": [
                {"ResourceType": kind, "ResourceName": name,
                 "Configs": [{"Name": key, "Value": value} for key, value in configs]}]}
        topic = self.name("altered")
        self.p.topic(topic)
        self.ok(body(TOPIC, topic, ("retention.ms", "5000")))
        self.after_configs(topic)
        self.ok(body(TOPIC, topic, ("cleanup.policy", "compact")), "another in its place")
        self.after_configs(topic)
        self.ok(body(TOPIC, topic, ("retention.ms", "6000"), ValidateOnly=True), "only checked")
        self.after_configs(topic)
        self.ok(body(TOPIC, topic), "none")
        self.after_configs(topic)
        self.ok({"Resources": []}, "no resource")
        self.ok(body(BROKER, "0", ("background.threads", "8")), "the broker")
        self.ok(body(BROKER, "0"), "nothing of the broker")
        self.bad_configs(body, topic, lambda key, value: (key, value))

    def bad_configs(self, body, topic, config):
        self.bad(body(TOPIC, UNKNOWN, config("retention.ms", "1")), "unknown topic")
        self.bad(body(TOPIC, "", config("retention.ms", "1")), "no name")
        self.bad(body(TOPIC, "not a name", config("retention.ms", "1")), "an invalid name")
        self.bad(body(TOPIC, topic, config("no.such.config", "1")), "an unknown config")
        self.bad(body(TOPIC, topic, config("retention.ms", "soon")), "no number")
        self.bad(body(TOPIC, topic, config("retention.ms", "-2")), "out of bounds")
        self.bad(body(TOPIC, topic, config("retention.ms", None)), "null for a config")
        self.bad(body(TOPIC, topic, config("cleanup.policy", "shred")), "no such policy")
        self.bad(body(TOPIC, topic, config("segment.bytes", "100")), "a segment too small")
        self.bad(body(TOPIC, topic, config("retention.ms", "1"), config("retention.ms", "2")), "a config twice")
        self.bad(body(TOPIC, topic, config("retention.ms", "1"), config("no.such.config", "2")), "one of two unknown")
        self.bad(body(BROKER, "9", config("background.threads", "8")), "an unknown broker")
        self.bad(body(BROKER, "one", config("background.threads", "8")), "a broker that is no number")
        self.bad(body(BROKER, "0", config("node.id", "8")), "read only")
        self.bad(body(BROKER, "0", config("no.such.config", "8")), "an unknown config of the broker")
        self.bad(body(BROKER, "0", config("background.threads", "0")), "out of bounds of the broker")
        self.bad(body(0, "plain", config("retention.ms", "1")), "type 0")
        self.bad(body(99, "plain", config("retention.ms", "1")), "an unknown type")
        if self.api == INCREMENTAL_ALTER_CONFIGS or self.v == 2:
            # To AlterConfigs Kafka says nothing, so once is enough.
            body = body(TOPIC, topic, config("retention.ms", "1"))
            self.bad({"Resources": body["Resources"] * 2}, "a resource twice")
        self.after_configs(topic)

    def incremental_alter_configs(self):
        def body(kind, name, *configs, **more):
            return {"ValidateOnly": False, **more, "Resources": [
                {"ResourceType": kind, "ResourceName": name,
                 "Configs": [{"Name": key, "Value": value, "ConfigOperation": operation}
                             for key, value, operation in configs]}]}
        set_, delete, append, subtract = range(4)
        topic = self.name("altered")
        self.p.topic(topic)
        for configs, what in (
                ([("retention.ms", "5000", set_)], "set"),
                ([("cleanup.policy", "compact", append)], "append"),
                ([("cleanup.policy", "compact", append)], "append what is there"),
                ([("cleanup.policy", "delete", subtract)], "subtract"),
                ([("cleanup.policy", "delete", subtract)], "subtract what is not there"),
                ([("retention.ms", None, delete)], "delete"),
                ([("retention.ms", "7", delete)], "delete with a value"),
                ([("segment.bytes", None, delete)], "delete what is not set"),
                ([("segment.bytes", "2097152", set_), ("retention.ms", "9", set_)], "two")):
            self.ok(body(TOPIC, topic, *configs), what)
            self.after_configs(topic)
        self.ok(body(TOPIC, topic, ("retention.ms", "6000", set_), ValidateOnly=True), "only checked")
        self.after_configs(topic)
        self.ok(body(TOPIC, topic), "none")
        self.ok({"Resources": []}, "no resource")
        self.ok(body(BROKER, "0", ("background.threads", "8", set_)), "the broker")
        self.ok(body(BROKER, "0", ("background.threads", None, delete)), "the broker's default again")
        self.bad(body(TOPIC, topic, ("retention.ms", "1", append)), "append to no list")
        self.bad(body(TOPIC, topic, ("retention.ms", "1", subtract)), "subtract from no list")
        self.bad(body(TOPIC, topic, ("retention.ms", "1", 4)), "an unknown operation")
        self.bad(body(TOPIC, topic, ("retention.ms", "1", -1)), "a negative operation")
        self.bad(body(TOPIC, topic, ("cleanup.policy", "shred", append)), "append no such policy")
        self.bad_configs(body, topic, lambda key, value: (key, value, set_))

    def list_config_resources(self):
        for types in ([TOPIC], [BROKER], [BROKER_LOGGER], [CLIENT_METRICS], [GROUP], [TOPIC, BROKER], []):
            for _ in range(2):
                self.ok({"ResourceTypes": types}, f"types {types}")
        for types in ([99], [0], [-1], [TOPIC, 99], [1], [BROKER, BROKER]):
            self.bad({"ResourceTypes": types}, f"types {types}")

    # Producers.

    def init_producer_id(self):
        body = lambda name=None, timeout=1000, **more: {
            "TransactionalId": name, "TransactionTimeoutMs": timeout, **more}
        for _ in range(9):
            self.ok(body(timeout=self.one_of(0, 1000, 60000)))
        self.ok(body(timeout=-1), "a negative timeout")
        self.ok(body(timeout=2 ** 31 - 1), "a long timeout")
        self.bad(body(""), "an empty transactional id")
        self.bad(body(ProducerId=5), "an id without an epoch")
        self.bad(body(ProducerEpoch=5), "an epoch without an id")
        self.bad(body(ProducerId=5, ProducerEpoch=5), "an id and an epoch")
        self.bad(body("tx", -1), "a transaction with a negative timeout")
        self.bad(body("tx", 0), "a transaction without a timeout")
        self.bad(body("tx", 2 ** 31 - 1), "a transaction with a long timeout")

    def offset_for_leader_epoch(self):
        def body(topic="three", partition=0, epoch=0, current=-1, **more):
            return {"ReplicaId": -1, **more, "Topics": [{"Topic": topic, "Partitions": [
                {"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}]}]}
        for _ in range(5):
            self.ok(body(partition=self.rng.randint(0, 2)))
        self.ok(body("empty", 1), "an empty partition")
        self.ok(body(current=0), "the current epoch")
        self.ok(body(epoch=3), "an epoch of the future")
        self.ok(body(epoch=-1), "no epoch")
        self.ok({"ReplicaId": -1, "Topics": []}, "no topic")
        self.bad(body(UNKNOWN), "unknown topic")
        self.bad(body(partition=9), "unknown partition")
        self.bad(body(partition=-1), "negative partition")
        self.bad(body(current=7), "a current epoch of the future")
        self.bad(body(epoch=-5), "a negative epoch")
        self.bad(body(ReplicaId=3), "as a replica")
        self.bad(body(""), "no name")
        twice = body()
        twice["Topics"][0]["Partitions"] *= 2
        self.bad(twice, "a partition twice")

    # Groups.

    def find_coordinator(self):
        def body(*keys, kind=0):
            return {"Key": keys[0] if keys else "", "KeyType": kind, "CoordinatorKeys": list(keys)}
        for _ in range(8):
            self.ok(body(self.name("group")))
        self.ok(body("g1", "g2", "g1"), "several")
        self.ok(body("committed"))
        if self.v >= 4:
            self.ok(body(), "none")
        self.bad(body(""), "an empty group")
        self.bad(body("g", kind=3), "an unknown type")
        self.bad(body("g", kind=-1), "a negative type")
        self.bad(body("g", kind=2), "a share group without a partition")
        self.bad(body("g:x:y", kind=2), "a share group with no number")
        self.bad(body("tx", kind=1), "a transaction")
        self.bad(body("", kind=1), "an empty transaction")

    def join_body(self, group, member="", protocols=(("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION)), **more):
        return {"GroupId": group, "SessionTimeoutMs": 900000, "RebalanceTimeoutMs": 900000, "MemberId": member,
                "ProtocolType": "consumer", **more,
                "Protocols": [{"Name": name, "Metadata": metadata} for name, metadata in protocols]}

    def join(self, group, version=None, name="main", **more):
        """A member that is alone in its group: its id, in generation 1."""
        version = self.v if version is None else version
        body = self.join_body(group, **more)
        answer = self.p.ask(JOIN_GROUP, version, body, "join", name=name)
        if answer.kafka().get("ErrorCode") == 79:
            answer = self.p.ask(JOIN_GROUP, version, {**body, "MemberId": answer.both("MemberId")}, "join with the id",
                                name=name)
        return answer.both("MemberId")

    def sync(self, group, member, generation=1, version=5, assignment=b"mine", name="main", **more):
        body = {"GroupId": group, "GenerationId": generation, "MemberId": member, "ProtocolType": "consumer",
                "ProtocolName": "range", "Assignments": [{"MemberId": member, "Assignment": assignment}], **more}
        return self.p.ask(SYNC_GROUP, version, body, "sync", name=name)

    def stable(self, group=None, **more):
        """A group with one member that has its assignment."""
        group = group or self.name("group")
        member = self.join(group, version=7, **more)
        static = {"GroupInstanceId": more["GroupInstanceId"]} if "GroupInstanceId" in more else {}
        self.sync(group, member, **static)
        return group, member

    def leave(self, group, member):
        self.p.ask(LEAVE_GROUP, 4, {"GroupId": group, "Members": [{"MemberId": member}]}, "leave")

    def join_group(self):
        group = self.name("group")
        member = self.join(group)
        self.sync(group, member)
        self.ok(self.join_body(group, member), "again")
        self.ok(self.join_body(group, member, protocols=[("range", SUBSCRIPTION.replace(b"three", b"plain"))]), "with other metadata")
        self.bad(self.join_body(group, "unknown"), "unknown member")
        self.bad(self.join_body(group, protocols=[("nothing", b"")]), "no protocol in common")
        self.bad(self.join_body(group, ProtocolType="connect"), "another type of protocol")
        self.two_members(group, member)
        self.bad(self.join_body(""), "no group")
        self.bad(self.join_body(self.name("refused"), "unknown"), "unknown member of a new group")
        self.bad(self.join_body(self.name("refused"), SessionTimeoutMs=1), "a session too short")
        self.bad(self.join_body(self.name("refused"), SessionTimeoutMs=10 ** 8), "a session too long")
        self.bad(self.join_body(self.name("refused"), SessionTimeoutMs=-1), "a negative session")
        self.bad(self.join_body(self.name("refused"), protocols=[]), "no protocols")
        self.bad(self.join_body(self.name("refused"), ProtocolType=""), "no type of protocol")
        self.bad(self.join_body(self.name("refused"), ProtocolType=None), "null for the type of protocol")
        self.join(self.name("hasty"), RebalanceTimeoutMs=-1)
        self.join(self.name("group"), Reason="because")
        self.join(self.name("group"), protocols=[("a", SUBSCRIPTION), ("b", SUBSCRIPTION + b"more")])
        if self.v >= 5:
            static = self.name("group")
            member = self.join(static, GroupInstanceId="static")
            self.sync(static, member, GroupInstanceId="static")
            again = self.ok(self.join_body(static, GroupInstanceId="static"), "static, come back")
            self.bad(self.join_body(static, member, GroupInstanceId="static"), "static, fenced")
            self.bad(self.join_body(static, again.both("MemberId"), GroupInstanceId="nobody"), "static, unknown")
            self.bad(self.join_body(static, GroupInstanceId=""), "static, without a name")
            self.bad(self.join_body(static, GroupInstanceId="not a name"), "static, with no name")
        while self.p.requests[JOIN_GROUP, self.v] < AT_LEAST:
            self.join(self.name("group"))

    def two_members(self, group, first):
        """A second member comes, both get their parts, and a third finds the group full or not."""
        p, v = self.p, self.v
        body = self.join_body(group, protocols=[("range", SUBSCRIPTION)])
        if v >= 4:
            answer = p.ask(JOIN_GROUP, v, body, "a second", name="second")
            body["MemberId"] = answer.both("MemberId")
        p.send("second", JOIN_GROUP, v, body, "a second joins")
        # Joined, as the first finds out by its heartbeat.
        for _ in range(100):
            told = [p.quiet(DESCRIBE_GROUPS, 0, {"Groups": [group]}, side) for side in (0, 1)]
            if all(one["Groups"][0]["GroupState"] == "PreparingRebalance" for one in told):
                break
            time.sleep(0.02)
        p.ask(HEARTBEAT, 4, {"GroupId": group, "GenerationId": 2, "MemberId": first}, "while it rebalances")
        p.ask(HEARTBEAT, 4, {"GroupId": group, "GenerationId": 3, "MemberId": first}, "while it rebalances")
        p.ask(DESCRIBE_GROUPS, 5, {"Groups": [group]}, "while it rebalances")
        p.ask(JOIN_GROUP, v, self.join_body(group, first), "the first joins again")
        second = p.receive("second").both("MemberId")
        told = p.ask(DESCRIBE_GROUPS, 5, {"Groups": [group]}, "before the assignment")
        leader = first
        generation = 4
        p.send("second", SYNC_GROUP, 5, {"GroupId": group, "GenerationId": generation, "MemberId": second,
                                         "ProtocolType": "consumer", "ProtocolName": "range"}, "a follower syncs")
        p.ask(SYNC_GROUP, 5, {"GroupId": group, "GenerationId": generation, "MemberId": leader,
                              "ProtocolType": "consumer", "ProtocolName": "range", "Assignments": [
                                  {"MemberId": leader, "Assignment": b"one"},
                                  {"MemberId": second, "Assignment": b"two"}]}, "the leader syncs")
        p.receive("second")
        p.ask(DESCRIBE_GROUPS, 5, {"Groups": [group]}, "two members")
        p.ask(LEAVE_GROUP, 4, {"GroupId": group, "Members": [{"MemberId": second}]}, "the second leaves")
        p.ask(HEARTBEAT, 4, {"GroupId": group, "GenerationId": generation, "MemberId": first}, "after the second left")

    def sync_group(self):
        def body(group, member, generation=1, **more):
            return {"GroupId": group, "GenerationId": generation, "MemberId": member, "ProtocolType": "consumer",
                    "ProtocolName": "range", "Assignments": [{"MemberId": member, "Assignment": b"mine"}], **more}
        for _ in range(3):
            group = self.name("group")
            member = self.join(group, version=7)
            self.ok(body(group, member))
            self.ok(body(group, member), "again")
        self.ok(body(group, member, Assignments=[]), "again, without an assignment")
        other = self.name("group")
        alone = self.join(other, version=7)
        self.ok(body(other, alone, Assignments=[]), "a leader without an assignment")
        self.bad(body(group, member, 2), "a generation of the future")
        self.bad(body(group, member, 0), "a generation of the past")
        self.bad(body(group, member, -1), "no generation")
        self.bad(body(group, "unknown"), "unknown member")
        self.bad(body(group, ""), "no member")
        self.bad(body(self.name("group"), "unknown"), "unknown group")
        self.bad(body("", member), "no group")
        self.bad(body(group, member, ProtocolType="connect"), "another type of protocol")
        self.bad(body(group, member, ProtocolName="sticky"), "another protocol")
        self.bad(body(group, member, ProtocolType=None, ProtocolName=None), "null for the protocol")
        self.bad(body(group, member, GroupInstanceId="nobody"), "unknown static member")
        self.leave(group, member)
        self.bad(body(group, member), "after it left")
        if self.v >= 3:
            group, member = self.stable(GroupInstanceId="static")
            self.ok(body(group, member, GroupInstanceId="static"), "static")
            self.bad(body(group, "another", GroupInstanceId="static"), "static, fenced")

    def heartbeat(self):
        def body(group, member, generation=1, **more):
            return {"GroupId": group, "GenerationId": generation, "MemberId": member, **more}
        group, member = self.stable()
        for _ in range(8):
            self.ok(body(group, member))
        self.bad(body(group, member, 2), "a generation of the future")
        self.bad(body(group, member, 0), "a generation of the past")
        self.bad(body(group, member, -1), "no generation")
        self.bad(body(group, "unknown"), "unknown member")
        self.bad(body(group, ""), "no member")
        self.bad(body(self.name("group"), "unknown"), "unknown group")
        self.bad(body("", member), "no group")
        self.bad(body(group, member, GroupInstanceId="nobody"), "unknown static member")
        waiting = self.name("group")
        self.ok(body(waiting, self.join(waiting, version=7)), "before its assignment")
        self.leave(group, member)
        self.bad(body(group, member), "after it left")
        if self.v >= 3:
            group, member = self.stable(GroupInstanceId="static")
            self.ok(body(group, member, GroupInstanceId="static"), "static")
            self.bad(body(group, "another", GroupInstanceId="static"), "static, fenced")

    def leave_group(self):
        def body(group, *members, **more):
            return {"GroupId": group, "MemberId": members[0] if members else "", "Members": [
                {"MemberId": one, **more} for one in members]}
        for _ in range(4):
            group, member = self.stable()
            self.ok(body(group, member))
            self.bad(body(group, member), "once more")
        group, member = self.stable()
        self.bad(body(group, "unknown"), "unknown member")
        self.bad(body(group, ""), "no member")
        self.bad(body(self.name("group"), "unknown"), "unknown group")
        self.bad(body("", member), "no group")
        self.bad(body("committed", "unknown"), "a group without members")
        self.ok(body(group), "nobody")
        self.bad(body(group, "unknown", member, "unknown"), "one of three is there")
        self.bad(body(group, member, GroupInstanceId="nobody"), "unknown static member")
        if self.v >= 3:
            group, member = self.stable(GroupInstanceId="static")
            self.bad(body(group, "another", GroupInstanceId="static"), "static, fenced")
            self.ok(body(group, "", GroupInstanceId="static"), "static, by name alone")
        for _ in range(2):
            group, member = self.stable()
            self.ok(body(group, member, Reason="enough"), "a reason")

    def describe_groups(self):
        body = lambda *groups, **more: {"Groups": list(groups), **more}
        group, member = self.stable()
        for _ in range(3):
            self.ok(body(group))
            self.ok(body("committed", group))
        self.ok(body(group, IncludeAuthorizedOperations=True), "with what is allowed")
        self.ok(body("committed"), "a group without members")
        waiting = self.name("group")
        self.join(waiting, version=7)
        self.ok(body(waiting), "before its assignment")
        static, _ = self.stable(GroupInstanceId="static")
        self.ok(body(static), "static")
        self.ok(body(), "none")
        self.ok(body(group, group), "a group twice")
        self.leave(group, member)
        self.ok(body(group), "after all left")
        self.bad(body("unknown"), "unknown group")
        self.bad(body(""), "no group")
        self.bad(body("unknown", "committed"), "an unknown group among others")
        self.bad(body("unknown", IncludeAuthorizedOperations=True), "unknown group, with what is allowed")
        self.bad(body("ü" * 200), "a long name")

    def list_groups(self):
        self.ok({}, "all")
        for states in (["Stable"], ["Empty"], ["Empty", "Stable"], ["empty"], ["Dead"], ["PreparingRebalance"], []):
            for types in ([], ["classic"]):
                self.ok({"StatesFilter": states, "TypesFilter": types}, "a filter")
        for states, types in ((["Nonsense"], []), ([""], []), ([], ["nonsense"]), ([], [""]), ([], ["Consumer"]),
                              (["Stable", "Nonsense"], ["classic", "nonsense"])):
            self.bad({"StatesFilter": states, "TypesFilter": types}, "a filter of nonsense")

    def delete_groups(self):
        body = lambda *groups: {"GroupsNames": list(groups)}
        for _ in range(5):
            group, member = self.stable()
            self.leave(group, member)
            self.ok(body(group))
            self.bad(body(group), "once more")
        group, member = self.stable()
        self.bad(body(group), "a group with members")
        self.bad(body("unknown"), "unknown group")
        self.bad(body(""), "no group")
        self.bad(body("unknown", group, ""), "several")
        self.bad(body("unknown", "unknown"), "an unknown group twice")
        self.ok(body(), "none")
        name = self.name("group")
        self.p.ask(OFFSET_COMMIT, 7, self.commit_body(name))
        self.ok(body(name), "a group of offsets only")
        self.p.ask(OFFSET_FETCH, 7, {"GroupId": name, "Topics": None}, "after the group was deleted")
        self.leave(group, member)

    def commit_body(self, group, topic="plain", partition=0, offset=1, **more):
        metadata = more.pop("metadata", "words")
        epoch = more.pop("epoch", -1)
        return {"GroupId": group, "Topics": [
            {"Name": topic, "TopicId": self.topic(topic), "Partitions": [
                {"PartitionIndex": partition, "CommittedOffset": offset, "CommittedLeaderEpoch": epoch,
                 "CommittedMetadata": metadata}]}], **more}

    def offset_commit(self):
        body = self.commit_body
        group = self.name("group")
        for _ in range(4):
            self.ok(body(group, "three", self.rng.randint(0, 2), self.rng.randint(0, 9)))
        self.ok(body(group, metadata=None), "null for metadata")
        self.ok(body(group, metadata=""), "empty metadata")
        self.ok(body(group, epoch=3), "an epoch")
        self.ok(body(group, offset=10 ** 9), "beyond the end")
        self.ok(body(group, RetentionTimeMs=5000), "a retention")
        self.ok({"GroupId": group, "Topics": []}, "none")
        member_group, member = self.stable()
        mine = dict(GenerationIdOrMemberEpoch=1, MemberId=member)
        self.ok(body(member_group, **mine), "by a member")
        self.bad(body(member_group, GenerationIdOrMemberEpoch=5, MemberId=member), "another generation")
        self.bad(body(member_group, GenerationIdOrMemberEpoch=1, MemberId="unknown"), "unknown member")
        self.bad(body(member_group), "by nobody, while there are members")
        self.bad(body(member_group, **mine, GroupInstanceId="nobody"), "unknown static member")
        self.bad(body(group, UNKNOWN), "unknown topic")
        self.bad(body(group, "three", 9), "unknown partition")
        self.bad(body(group, "three", -1), "negative partition")
        self.bad(body(group, metadata="x" * 101), "too much metadata")
        self.bad(body(group, offset=-1), "a negative offset")
        self.bad(body(""), "no group")
        self.bad(body(self.name("group"), GenerationIdOrMemberEpoch=1, MemberId="m"), "a member of no group")
        self.bad(body(self.name("group"), GenerationIdOrMemberEpoch=1), "a generation of no group")
        self.p.ask(OFFSET_FETCH, 7, {"GroupId": group, "Topics": None}, "after the commits")
        self.leave(member_group, member)

    def offset_fetch(self):
        def body(group, *topics, **more):
            own = {key: more.pop(key) for key in ("MemberId", "MemberEpoch") if key in more}
            by_name = [{"Name": t, "PartitionIndexes": list(p)} for t, p in topics]
            both = [{"Name": t, "TopicId": self.topic(t), "PartitionIndexes": list(p)} for t, p in topics]
            everything = topics == (None,)
            return {"GroupId": group, "Topics": by_name, **more,
                    "Groups": [{"GroupId": group, "Topics": both, **own}]}

        def all_of(group, **more):
            return {"GroupId": group, "Topics": None, "Groups": [{"GroupId": group, "Topics": None}], **more}
        for _ in range(4):
            self.ok(body("committed", ("three", self.rng.sample([0, 1, 2], 2))))
        self.ok(body("committed", ("plain", [0]), ("three", [2, 0, 1])), "several")
        self.ok(body("other", ("plain", [0])))
        self.ok(body("committed"), "none")
        self.ok(body("committed", ("plain", [])), "no partition")
        if self.v >= 2:
            self.ok(all_of("committed"), "all")
            self.ok(all_of("unknown"), "all of an unknown group")
            self.ok(all_of("committed", RequireStable=True), "all that is stable")
        self.ok(body("committed", ("plain", [0]), RequireStable=True), "stable")
        self.bad(body("unknown", ("plain", [0])), "unknown group")
        self.bad(body("", ("plain", [0])), "no group")
        self.bad(body("committed", (UNKNOWN, [0])), "unknown topic")
        self.bad(body("committed", ("plain", [9])), "unknown partition")
        self.bad(body("committed", ("plain", [-1])), "negative partition")
        self.bad(body("committed", ("plain", [0, 0])), "a partition twice")
        self.bad(body("committed", ("plain", [0]), ("plain", [0])), "a topic twice")
        if self.v >= 8:
            groups = [body(g, ("plain", [0]))["Groups"][0] for g in ("committed", "unknown", "other")]
            self.ok({"Groups": groups}, "three groups")
            self.ok({"Groups": []}, "no groups")
        if self.v >= 9:
            self.bad(body("committed", ("plain", [0]), MemberId="unknown", MemberEpoch=3), "unknown member")
            self.bad(body("committed", ("plain", [0]), MemberEpoch=3), "an epoch without a member")

    def offset_delete(self):
        def body(group, *topics):
            return {"GroupId": group, "Topics": [
                {"Name": t, "Partitions": [{"PartitionIndex": p} for p in partitions]} for t, partitions in topics]}
        group = self.name("group")
        for _ in range(5):
            self.p.ask(OFFSET_COMMIT, 7, self.commit_body(group))
            self.ok(body(group, ("plain", [0])))
        self.p.ask(OFFSET_COMMIT, 7, self.commit_body(group, "three", 1))
        self.ok(body(group, ("plain", [0]), ("three", [1, 2])), "several")
        self.ok(body(group), "none")
        self.p.ask(OFFSET_COMMIT, 7, self.commit_body(group))
        self.ok(body(group, ("three", [])), "no partition")
        self.bad(body("unknown", ("plain", [0])), "unknown group")
        self.bad(body("", ("plain", [0])), "no group")
        self.bad(body(group, (UNKNOWN, [0])), "unknown topic")
        self.bad(body(group, ("plain", [9])), "unknown partition")
        self.bad(body(group, ("plain", [-1])), "negative partition")
        self.bad(body(group, ("plain", [0]), ("plain", [0])), "a topic twice")
        subscription = bytes.fromhex("0000" "00000001" "0005") + b"plain" + bytes.fromhex("ffffffff")
        subscribed, member = self.stable(protocols=[("range", subscription)])
        mine = dict(GenerationIdOrMemberEpoch=1, MemberId=member)
        self.p.ask(OFFSET_COMMIT, 7, self.commit_body(subscribed, **mine))
        self.bad(body(subscribed, ("plain", [0])), "a topic that is subscribed to")
        self.ok(body(subscribed, ("three", [0])), "a topic that is not subscribed to")
        opaque, member = self.stable(ProtocolType="connect", protocols=[("range", b"m")])
        self.bad(body(opaque, ("plain", [0])), "a live group of another type")

    def consumer_heartbeat(self):
        def body(group, member, epoch=0, topics=("three",), **more):
            more = {"RebalanceTimeoutMs": 10000, "SubscribedTopicNames": list(topics) if topics else topics,
                    "TopicPartitions": [], **more}
            return {"GroupId": group, "MemberId": member, "MemberEpoch": epoch, **more}

        def joined(group, what, **more):
            member = "" if self.v == 0 else new()
            answer = self.ok(body(group, member, 0, **more), what)
            return answer.both("MemberId"), answer.both("MemberEpoch")

        def leave(group, member):
            self.ok({"GroupId": group, "MemberId": member, "MemberEpoch": -1}, "leave")
        new = lambda: str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        group = self.name("group")
        if self.v >= 1:
            self.bad(body(self.name("refused"), ""), "join without an id")
        member, epoch = joined(group, "join")
        owned = [{"TopicId": self.topic("three"), "Partitions": [0, 1, 2]}]
        beat = lambda epoch, **more: {"GroupId": group, "MemberId": member, "MemberEpoch": epoch, **more}
        self.ok(beat(epoch, TopicPartitions=owned), "owns what it was given")
        self.ok(beat(epoch), "nothing new")
        epoch = self.ok(beat(epoch, SubscribedTopicNames=["three", "plain"], TopicPartitions=owned),
                        "one topic more").both("MemberEpoch")
        self.p.ask(CONSUMER_DESCRIBE, min(self.v, 1), {"GroupIds": [group]}, "one member")
        late = dict(MemberId=member, GenerationIdOrMemberEpoch=0)
        self.p.ask(OFFSET_COMMIT, 9, self.commit_body(group, **late), "an epoch of the past", bad=True)
        self.p.ask(OFFSET_FETCH, 9, {"Groups": [{"GroupId": group, "MemberId": member, "MemberEpoch": 0,
                                                 "Topics": None}]}, "an epoch of the past", bad=True)
        self.bad(beat(99), "an epoch of the future")
        self.bad(body(group, "unknown", 1, None), "unknown member")
        self.bad(body(self.name("refused"), "unknown", 1, None), "unknown group")
        self.bad(body("", member), "no group")
        self.bad(body(group, member, -5), "a negative epoch")
        self.bad(body(group, new(), 0, ServerAssignor="nobody"), "an unknown assignor")
        self.bad(body(group, new(), 0, None), "join without a subscription")
        self.bad(body(group, new(), 0, RebalanceTimeoutMs=-1), "join without a timeout")
        self.bad(body(group, new(), 0, TopicPartitions=owned), "join with partitions")
        self.bad(body(group, new(), 0, TopicPartitions=None), "join without partitions")
        self.bad(body(group, new(), 0, InstanceId=""), "an empty instance")
        self.bad(body(group, new(), 0, RackId=""), "an empty rack")
        self.bad(beat(epoch, InstanceId="nobody"), "an instance it is not")
        if self.v >= 1:
            self.bad(body(group, new(), 0, None, SubscribedTopicRegex="("), "no expression")
            regex, one = self.name("group"), new()
            self.ok(body(regex, one, 0, None, SubscribedTopicRegex="thre."), "an expression")
            leave(regex, one)
        full = self.name("group")
        members = [joined(full, "join")[0] for _ in range(3)]
        self.bad(body(full, "" if self.v == 0 else new()), "a full group")
        for one in members:
            leave(full, one)
        static = self.name("group")
        first, _ = joined(static, "static, join", InstanceId="static")
        self.bad(body(static, "" if self.v == 0 else new(), 0, InstanceId="static"), "static, held by another")
        self.ok({"GroupId": static, "MemberId": first, "MemberEpoch": -2, "InstanceId": "static"}, "static, away")
        second, _ = joined(static, "static, come back", InstanceId="static")
        leave(static, second)
        leave(group, member)
        self.bad(beat(epoch), "after it left")
        classic, one = self.stable()
        self.bad(body(classic, "" if self.v == 0 else new(), 0), "a classic group")
        self.leave(classic, one)

    def consumer_describe(self):
        body = lambda *groups, **more: {"GroupIds": list(groups), **more}
        group = self.name("group")
        member = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        join = {"GroupId": group, "MemberId": member, "MemberEpoch": 0, "RebalanceTimeoutMs": 10000,
                "SubscribedTopicNames": ["three"], "TopicPartitions": []}
        self.p.ask(CONSUMER_HEARTBEAT, 1, join, "join")
        for _ in range(6):
            self.ok(body(group))
        self.ok(body(group, IncludeAuthorizedOperations=True), "with what is allowed")
        self.ok(body(), "none")
        self.ok(body(group, group), "a group twice")
        self.p.ask(CONSUMER_HEARTBEAT, 1, {"GroupId": group, "MemberId": member, "MemberEpoch": -1}, "leave")
        self.ok(body(group), "after all left")
        self.bad(body("unknown"), "unknown group")
        self.bad(body("committed"), "a classic group")
        self.bad(body(""), "no group")
        self.bad(body("unknown", "", "committed"), "several")
        self.bad(body(None), "null for a group")


# In this order, from what changes nothing to what does.
SCENARIOS = {
    API_VERSIONS: "api_versions", DESCRIBE_CLUSTER: "describe_cluster", DESCRIBE_QUORUM: "describe_quorum",
    FETCH: "fetch", LIST_OFFSETS: "list_offsets", OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    DESCRIBE_LOG_DIRS: "describe_log_dirs", DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    LIST_REASSIGNMENTS: "list_reassignments", DESCRIBE_CONFIGS: "describe_configs",
    FIND_COORDINATOR: "find_coordinator", OFFSET_FETCH: "offset_fetch", METADATA: "metadata",
    ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs", ELECT_LEADERS: "elect_leaders",
    ALTER_REASSIGNMENTS: "alter_reassignments", LIST_CONFIG_RESOURCES: "list_config_resources",
    PRODUCE: "produce", INIT_PRODUCER_ID: "init_producer_id", CREATE_TOPICS: "create_topics",
    DELETE_TOPICS: "delete_topics", CREATE_PARTITIONS: "create_partitions", DELETE_RECORDS: "delete_records",
    ALTER_CONFIGS: "alter_configs", INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    OFFSET_COMMIT: "offset_commit", JOIN_GROUP: "join_group", SYNC_GROUP: "sync_group", HEARTBEAT: "heartbeat",
    LEAVE_GROUP: "leave_group", DESCRIBE_GROUPS: "describe_groups", DELETE_GROUPS: "delete_groups",
    OFFSET_DELETE: "offset_delete", CONSUMER_HEARTBEAT: "consumer_heartbeat",
    CONSUMER_DESCRIBE: "consumer_describe", LIST_GROUPS: "list_groups",
}
