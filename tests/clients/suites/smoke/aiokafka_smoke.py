"""What a user of aiokafka does first: `python aiokafka_smoke.py SCENARIO HOST:PORT`."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

SCENARIO, ADDRESS = sys.argv[1:]
TOPIC = f"aiokafka-{SCENARIO}"


async def admin_client():
    admin = AIOKafkaAdminClient(bootstrap_servers=ADDRESS)
    await admin.start()
    return admin


async def create(partitions, **configs):
    admin = await admin_client()
    topic = NewTopic(TOPIC, partitions, 1, topic_configs=configs)
    answer = await admin.create_topics([topic])
    assert answer.topic_errors[0][1] == 0, answer
    await admin.close()


async def producer(**settings):
    made = AIOKafkaProducer(bootstrap_servers=ADDRESS, enable_idempotence=True, **settings)
    await made.start()
    return made


async def consumer(group):
    made = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=ADDRESS, group_id=group, auto_offset_reset="earliest",
        session_timeout_ms=6000, heartbeat_interval_ms=500, metadata_max_age_ms=5000,
    )
    await made.start()
    return made


async def until(what, holds):
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"never: {what}")


async def collect(member, seen):
    async for message in member:
        seen.append(message)


def expected(number):
    key = f"k{number}".encode() if number % 3 else None
    # This client sends no record without both.
    value = f"v{number}".encode() if number % 5 else None if key else b""
    return (key, value, (("h", str(number).encode()), ("h", b"")))


async def round_trip(codec):
    await create(3)
    sender = await producer(compression_type=codec, linger_ms=5)
    waiting = []
    for number in range(500):
        key, value, headers = expected(number)
        waiting.append(await sender.send(TOPIC, value, key, headers=list(headers)))
    await asyncio.gather(*waiting)
    await sender.stop()
    reader = await consumer(TOPIC)
    seen = []
    task = asyncio.create_task(collect(reader, seen))
    await until("all records", lambda: len(seen) >= 500)
    got = sorted(
        ((m.key, m.value, tuple(m.headers)) for m in seen), key=lambda m: int(m[2][0][1])
    )
    assert got == [expected(number) for number in range(500)], got[:5]
    task.cancel()
    await reader.stop()


async def send_numbers(sender, numbers, partitions):
    for number in numbers:
        await sender.send_and_wait(TOPIC, str(number).encode(), partition=number % partitions)


async def group():
    await create(6)
    sender = await producer()
    seen = []
    members = [await consumer("aiokafka-three") for _ in range(3)]
    tasks = [asyncio.create_task(collect(member, seen)) for member in members]
    values = lambda: {m.value for m in seen}
    await until("two partitions each", lambda: all(len(m.assignment()) == 2 for m in members))
    await send_numbers(sender, range(60), 6)
    await until("the first records", lambda: len(values()) == 60)
    tasks.pop().cancel()
    await members.pop().stop()
    await until("three partitions each", lambda: all(len(m.assignment()) == 3 for m in members))
    await send_numbers(sender, range(60, 120), 6)
    await until("the others", lambda: len(values()) == 120)
    for task, member in zip(tasks, members):
        task.cancel()
        await member.stop()
    await sender.stop()


async def restart():
    await create(1)
    sender = await producer()
    reader = await consumer("aiokafka-restart")
    seen = []
    task = asyncio.create_task(collect(reader, seen))
    await send_numbers(sender, range(50), 1)
    await until("the first records", lambda: len({m.value for m in seen}) == 50)
    print("half", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await send_numbers(sender, range(50, 100), 1)
    await until("the records after the restart", lambda: len({m.value for m in seen}) == 100)
    # An idempotent producer repeats nothing.
    assert [int(m.value) for m in seen if m.offset >= 50][-50:] == list(range(50, 100))
    task.cancel()
    await reader.stop()
    await sender.stop()


async def admin():
    await create(2, **{"retention.ms": "1000000"})
    client = await admin_client()
    assert TOPIC in await client.list_topics()
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    described = str(await client.describe_configs([resource]))
    assert "1000000" in described, described
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "2000000"})
    await client.alter_configs([resource])
    assert "2000000" in str(await client.describe_configs([resource]))
    await client.create_partitions({TOPIC: NewPartitions(4)})
    described = await client.describe_topics([TOPIC])
    assert len(described[0]["partitions"]) == 4, described
    sender = await producer()
    await send_numbers(sender, [3, 7], 4)
    await sender.stop()
    reader = await consumer("aiokafka-admin")
    await until("an assignment", lambda: len(reader.assignment()) == 4)
    await reader.commit({TopicPartition(TOPIC, 3): 1})
    offsets = await client.list_consumer_group_offsets("aiokafka-admin")
    assert offsets[TopicPartition(TOPIC, 3)].offset == 1, offsets
    await reader.stop()
    groups = await client.list_consumer_groups()
    assert any(group[0] == "aiokafka-admin" for group in groups), groups
    await client.delete_topics([TOPIC])
    assert TOPIC not in await client.list_topics()
    await client.close()


SCENARIOS = {"group": group, "restart": restart, "admin": admin, "plain": lambda: round_trip(None)}
asyncio.run(SCENARIOS.get(SCENARIO, lambda: round_trip(SCENARIO))())
