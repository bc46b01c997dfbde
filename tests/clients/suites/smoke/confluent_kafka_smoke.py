"""What a user of confluent-kafka does first: `python confluent_kafka_smoke.py SCENARIO HOST:PORT`."""

import sys
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
    OffsetSpec, ResourceType,
)

SCENARIO, ADDRESS = sys.argv[1:]
TOPIC = f"confluent-{SCENARIO}"
ADMIN = AdminClient({"bootstrap.servers": ADDRESS})


def done(futures):
    """The results of an admin call."""
    return {name: future.result(30) for name, future in futures.items()}


def create(partitions, **configs):
    done(ADMIN.create_topics([NewTopic(TOPIC, partitions, 1, config=configs)]))


def producer(codec="none"):
    return Producer({
        "bootstrap.servers": ADDRESS, "enable.idempotence": True, "compression.type": codec,
        "linger.ms": 5,
    })


def consumer(group, protocol="classic"):
    settings = {
        "bootstrap.servers": ADDRESS, "group.id": group, "auto.offset.reset": "earliest",
        "group.protocol": protocol,
    }
    if protocol == "classic":
        settings.update({"session.timeout.ms": 6000, "heartbeat.interval.ms": 500})
    made = Consumer(settings)
    made.subscribe([TOPIC])
    return made


def send(sender, numbers, partitions):
    failed = []
    told = lambda error, _: failed.append(error) if error else None
    for number in numbers:
        sender.produce(TOPIC, str(number).encode(), partition=number % partitions, on_delivery=told)
    assert sender.flush(60) == 0 and not failed, failed


def poll_until(what, members, seen, holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"never: {what}: {len(seen)} records"
        for member in members:
            message = member.poll(0.05)
            if message is not None and message.error() is None:
                seen.append(message)


def expected(number):
    key = f"k{number}".encode() if number % 3 else None
    value = f"v{number}".encode() if number % 5 else None
    return (key, value, [("h", str(number).encode()), ("h", None), ("", b"")])


def round_trip(codec):
    create(3)
    sender = producer(codec)
    for number in range(500):
        key, value, headers = expected(number)
        sender.produce(TOPIC, value, key, headers=headers)
    assert sender.flush(60) == 0
    reader, seen = consumer(TOPIC), []
    poll_until("all records", [reader], seen, lambda: len(seen) >= 500)
    got = sorted(
        ((m.key(), m.value(), m.headers()) for m in seen), key=lambda m: int(m[2][0][1])
    )
    assert got == [expected(number) for number in range(500)], got[:5]
    reader.close()


def group(protocol):
    create(6)
    sender, seen = producer(), []
    members = [consumer(f"confluent-{protocol}", protocol) for _ in range(3)]
    values = lambda: {m.value() for m in seen}
    each = lambda count: lambda: all(len(m.assignment()) == count for m in members)
    poll_until("two partitions each", members, seen, each(2))
    send(sender, range(60), 6)
    poll_until("the first records", members, seen, lambda: len(values()) == 60)
    members.pop().close()
    poll_until("three partitions each", members, seen, each(3))
    send(sender, range(60, 120), 6)
    poll_until("the others", members, seen, lambda: len(values()) == 120)
    for member in members:
        member.close()


def restart():
    create(1)
    sender, reader, seen = producer(), consumer("confluent-restart"), []
    send(sender, range(50), 1)
    poll_until("the first records", [reader], seen, lambda: len(seen) >= 50)
    print("half", flush=True)
    sys.stdin.readline()
    send(sender, range(50, 100), 1)
    poll_until(
        "the records after the restart", [reader], seen, lambda: len({m.value() for m in seen}) == 100
    )
    # An idempotent producer repeats nothing.
    at = {m.offset(): int(m.value()) for m in seen}
    assert at == {number: number for number in range(100)}, at
    reader.close()


def admin():
    create(2, **{"retention.ms": "1000000"})
    assert TOPIC in ADMIN.list_topics(timeout=10).topics
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    config = lambda: done(ADMIN.describe_configs([resource]))[resource]["retention.ms"].value
    assert config() == "1000000"
    change = ConfigResource(
        ResourceType.TOPIC, TOPIC,
        incremental_configs=[
            ConfigEntry(
                "retention.ms", "2000000", incremental_operation=AlterConfigOpType.SET
            ),
        ],
    )
    done(ADMIN.incremental_alter_configs([change]))
    assert config() == "2000000"
    done(ADMIN.create_partitions([NewPartitions(TOPIC, 4)]))
    end = time.monotonic() + 10
    while len(ADMIN.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions) != 4:
        assert time.monotonic() < end
    send(producer(), [3, 7], 4)
    place = TopicPartition(TOPIC, 3)
    latest = done(ADMIN.list_offsets({place: OffsetSpec.latest()}))[place]
    assert latest.offset == 2, latest
    name = "confluent-admin"
    asked = ConsumerGroupTopicPartitions(name, [TopicPartition(TOPIC, 3, 1)])
    done(ADMIN.alter_consumer_group_offsets([asked]))
    told = done(ADMIN.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))
    assert told[name].topic_partitions[0].offset == 1, told
    groups = ADMIN.list_consumer_groups(request_timeout=10).result(30)
    assert any(group.group_id == name for group in groups.valid)
    assert done(ADMIN.describe_consumer_groups([name]))[name].state.name == "EMPTY"
    deleted = done(ADMIN.delete_records([TopicPartition(TOPIC, 3, 1)]))
    assert deleted[place].low_watermark == 1, deleted
    done(ADMIN.delete_consumer_groups([name]))
    done(ADMIN.delete_topics([TOPIC]))
    assert TOPIC not in ADMIN.list_topics(timeout=10).topics


SCENARIOS = {
    "group": lambda: group("classic"),
    "group_kip_848": lambda: group("consumer"),
    "restart": restart,
    "admin": admin,
    "plain": lambda: round_trip("none"),
}
SCENARIOS.get(SCENARIO, lambda: round_trip(SCENARIO))()
