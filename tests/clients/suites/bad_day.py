#!/usr/bin/env python3
"""A day with a bad disk and a bad network: the program under two producers and two consumers, of
librdkafka and of kafka-python, that nobody helps. The trouble ends, and they go on by themselves;
nothing that was acknowledged is lost, and the log names the cause, not a thousand times.

    ODRADEK_BIN=PATH tests/clients/suites/bad_day.py
    ODRADEK_BIN=PATH tests/clients/suites/bad_day.py full_disk

Needs root, for mounts, and loop devices.
"""

import contextlib
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import suite

PYTHON_PACKAGES = ["confluent-kafka==2.12.1", "kafka-python==3.0.12"]
TOPIC = "day"
PARTITIONS = 3
# Of every consumer, in milliseconds; and the trouble that is longer than it, in seconds.
SESSION_MS = 6_000
LONGER_THAN_A_SESSION = 9
# Until everybody is back at work, in seconds.
PATIENCE = 60
# A trouble that takes longer, in seconds, has not ended well.
LIMIT = 360
# A cause that is told more often than this buries the others.
MOST_LINES = 40

LIST = suite.read_list(os.path.join(suite.HERE, "bad_day.tsv"))


def fetch(folder):
    suite.call([sys.executable, "-m", "venv", "venv"], folder)
    suite.call(["venv/bin/pip", "install", "-q", *PYTHON_PACKAGES], folder)


def until(what, holds, patience=PATIENCE):
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.05)


class Load:
    """Two producers that send numbers, two groups that read them, each on a thread of its own."""

    def __init__(self, address):
        # From the suite's environment, which the process of a trouble runs in.
        import confluent_kafka
        import confluent_kafka.admin
        import kafka

        self.confluent, self.kafka, self.address = confluent_kafka, kafka, address
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
        topic = confluent_kafka.admin.NewTopic(TOPIC, PARTITIONS, 1)
        admin.create_topics([topic])[TOPIC].result(30)
        self.lock = threading.Lock()
        # What was acknowledged and what was read, by client: (partition, offset) to value.
        self.acked = {"librdkafka": {}, "kafka-python": {}}
        self.read = {"librdkafka": {}, "kafka-python": {}}
        self.failed = []
        self.sending = True
        self.reading = True
        runs = [
            self.produce_by_librdkafka, self.produce_by_kafka_python,
            self.consume_by_librdkafka, self.consume_by_kafka_python,
        ]
        self.threads = [threading.Thread(target=self.guarded, args=(run,), daemon=True) for run in runs]
        for thread in self.threads:
            thread.start()
        self.expect_progress("at the beginning")

    def guarded(self, run):
        try:
            run()
        except Exception as error:  # A client that gives up is what is looked for.
            self.failed.append(f"{run.__name__} gave up: {error!r}")

    def is_acked(self, client, partition, offset, value):
        with self.lock:
            self.acked[client][partition, offset] = value

    def is_read(self, client, partition, offset, value):
        with self.lock:
            before = self.read[client].setdefault((partition, offset), value)
        if before != value:
            self.failed.append(f"{partition} at {offset} was {before} and is {value}")

    def produce_by_librdkafka(self):
        producer = self.confluent.Producer({
            "bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 5,
            "message.timeout.ms": 180_000, "socket.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 1_000,
        })

        def told(error, message):
            if error:
                self.failed.append(f"librdkafka: {error}")
            else:
                place = (message.partition(), message.offset())
                self.is_acked("librdkafka", *place, message.value())

        number = 0
        while self.sending:
            producer.produce(
                TOPIC, f"librdkafka {number}".encode() + b"." * 200,
                partition=number % PARTITIONS, on_delivery=told,
            )
            producer.poll(0.01)
            number += 1
        if producer.flush(PATIENCE):
            self.failed.append("librdkafka: not everything was delivered")

    def produce_by_kafka_python(self):
        producer = self.kafka.KafkaProducer(
            bootstrap_servers=self.address, acks="all", linger_ms=5, delivery_timeout_ms=180_000,
            request_timeout_ms=10_000, reconnect_backoff_max_ms=1_000, max_block_ms=120_000,
        )

        def sent(value):
            return lambda told: self.is_acked("kafka-python", told.partition, told.offset, value)

        number = 0
        while self.sending:
            value = f"kafka-python {number}".encode() + b"." * 200
            future = producer.send(TOPIC, value, partition=number % PARTITIONS)
            future.add_callback(sent(value))
            future.add_errback(lambda error: self.failed.append(f"kafka-python: {error!r}"))
            time.sleep(0.01)
            number += 1
        producer.flush(PATIENCE)

    def consume_by_librdkafka(self):
        consumer = self.confluent.Consumer({
            "bootstrap.servers": self.address, "group.id": "librdkafka",
            "auto.offset.reset": "earliest", "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 1_000, "socket.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 1_000,
        })
        consumer.subscribe([TOPIC])
        while self.reading:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                place = (message.partition(), message.offset())
                self.is_read("librdkafka", *place, message.value())
        consumer.close()

    def consume_by_kafka_python(self):
        consumer = self.kafka.KafkaConsumer(
            TOPIC, bootstrap_servers=self.address, group_id="kafka-python",
            auto_offset_reset="earliest", session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000, request_timeout_ms=10_000,
            reconnect_backoff_max_ms=1_000,
        )
        while self.reading:
            for messages in consumer.poll(timeout_ms=100).values():
                for message in messages:
                    self.is_read("kafka-python", message.partition, message.offset, message.value)
        consumer.close()

    def counts(self):
        with self.lock:
            return {
                f"{verb} by {client}": len(places)
                for verb, clients in (("acknowledged", self.acked), ("read", self.read))
                for client, places in clients.items()
            }

    def expect_progress(self, when):
        """Everybody does some more work."""
        before = self.counts()

        def all_moved():
            assert not self.failed, self.failed[:5]
            return all(count >= before[what] + 50 for what, count in self.counts().items())

        try:
            until(f"progress {when}", all_moved)
        except AssertionError as error:
            raise AssertionError(f"{error}: {before}, then {self.counts()}, {self.failed[:3]}") from None

    def end(self):
        """Everybody ends; what was acknowledged was read, by everybody, where it was acknowledged."""
        self.sending = False
        for thread in self.threads[:2]:
            thread.join(2 * PATIENCE)
        acked = self.acked["librdkafka"] | self.acked["kafka-python"]
        for client, read in self.read.items():
            def missing():
                with self.lock:
                    return [place for place in acked if place not in read]
            try:
                until("everything was read", lambda: not missing())
            except AssertionError:
                raise AssertionError(f"lost to {client}: {sorted(missing())[:5]}") from None
            other = [place for place, value in acked.items() if read[place] != value]
            assert not other, f"other records were read by {client}: {other[:5]}"
        self.reading = False
        for thread in self.threads[2:]:
            thread.join(PATIENCE)
        assert not self.failed, self.failed[:5]


def complaints(broker):
    """The lines of the broker's log that an operator would look at."""
    with open(broker.log, encoding="utf-8", errors="replace") as log:
        text = re.sub(r"\x1b\[[0-9;]*m", "", log.read())
    return [line for line in text.splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]


def expect_cause(broker, words, most=MOST_LINES):
    """The log names the cause, and is not full of it."""
    lines = complaints(broker)
    assert any(re.search(words, line) for line in lines), f"no line with {words}: {lines[-5:]}"
    assert len(lines) <= most, f"{len(lines)} lines, such as {lines[len(lines) // 2]}"


@contextlib.contextmanager
def mounted(root, prepare):
    """A filesystem of the broker's own below `root`."""
    os.makedirs(root, exist_ok=True)
    prepare(root)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", root], check=False)


def start(settings=(), root=None, port=0):
    """Small segments, so that every trouble meets a roll too."""
    settings = {"log.segment.bytes": 1 << 20, "group.initial.rebalance.delay.ms": 0, **dict(settings)}
    return suite.Broker(os.environ["ODRADEK_BIN"], settings, port, root)


def sigkill(_):
    broker = start()
    load = Load(broker.address)
    for _ in range(3):
        broker.kill()
        time.sleep(1)
        broker = broker.again()
        load.expect_progress("after a SIGKILL")
    load.end()
    return broker


def sigstop(_):
    broker = start()
    load = Load(broker.address)
    broker.process.send_signal(signal.SIGSTOP)
    time.sleep(LONGER_THAN_A_SESSION)
    broker.process.send_signal(signal.SIGCONT)
    load.expect_progress("after a SIGSTOP")
    load.end()
    return broker


def full_disk(root):
    data = os.path.join(root, "data")
    tmpfs = ["mount", "-t", "tmpfs", "-o", "size=24m", "odradek-suite", data]
    with mounted(data, lambda _: subprocess.run(tmpfs, check=True)):
        broker = start(root=root)
        load = Load(broker.address)
        ballast = os.path.join(data, "ballast")
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 65_536)
        time.sleep(LONGER_THAN_A_SESSION)
        lines = complaints(broker)
        os.remove(ballast)
        load.expect_progress("after the disk was full")
        load.end()
        assert lines, "a full disk is worth a line"
        expect_cause(broker, r"(?i)no space|storage full|os error 28")
        finish(broker)
    return None


def read_only(root):
    data, image = os.path.join(root, "data"), os.path.join(root, "image")
    os.makedirs(root, exist_ok=True)
    with open(image, "wb") as file:
        file.truncate(96 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    mount = ["mount", "-o", "loop,errors=remount-ro", image, data]
    with mounted(data, lambda _: subprocess.run(mount, check=True)):
        device = subprocess.run(
            ["findmnt", "-n", "-o", "SOURCE", data], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        broker = start({"log.segment.bytes": 4 << 20}, root)
        load = Load(broker.address)
        with open(f"/sys/fs/ext4/{os.path.basename(device)}/trigger_fs_error", "w", encoding="ascii") as file:
            file.write("an error of the test")
        time.sleep(LONGER_THAN_A_SESSION)
        expect_cause(broker, r"(?i)read-only|os error 30|os error 5\b|input/output")
        # Only a person can help here.
        broker.kill()
        subprocess.run(["umount", data], check=True)
        subprocess.run(["e2fsck", "-f", "-y", image], check=False, stdout=subprocess.DEVNULL)
        subprocess.run(mount, check=True)
        broker = broker.again()
        load.expect_progress("after the filesystem was mended")
        load.end()
        finish(broker)
    return None


def no_descriptors(_):
    broker = start()
    load = Load(broker.address)
    process = broker.process.pid
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    open_now = len(os.listdir(f"/proc/{process}/fd"))
    resource.prlimit(process, resource.RLIMIT_NOFILE, (open_now, before[1]))
    # New connections, which there are no descriptors for.
    port = int(broker.address.rsplit(":", 1)[1])
    knocking = []
    end = time.monotonic() + LONGER_THAN_A_SESSION
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            knocking.append(socket.create_connection(("127.0.0.1", port), timeout=1))
        time.sleep(0.05)
    for connection in knocking:
        connection.close()
    resource.prlimit(process, resource.RLIMIT_NOFILE, before)
    load.expect_progress("after there were no descriptors")
    load.end()
    expect_cause(broker, r"(?i)too many open files|descriptor|os error 24")
    return broker


class Proxy:
    """Carries bytes between clients and the broker: at once, late, not at all, or until it cuts."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target = None
        self.delay = 0.0
        self.stalled = False
        self.pairs = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self.pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        with contextlib.suppress(OSError, ValueError):
            while True:
                if self.stalled:
                    time.sleep(0.05)
                    continue
                if not select.select([source], [], [], 0.05)[0]:
                    continue
                data = source.recv(65_536)
                if not data:
                    break
                if self.delay:
                    time.sleep(self.delay)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Every connection, wherever in a frame it is."""
        pairs, self.pairs = self.pairs, []
        for client, server in pairs:
            for end in (client, server):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def bad_network(_):
    proxy = Proxy()
    broker = start({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"})
    proxy.target = int(broker.address.rsplit(":", 1)[1])
    load = Load(f"127.0.0.1:{proxy.port}")
    proxy.delay = 0.2
    time.sleep(4)
    proxy.delay = 0.0
    load.expect_progress("after everything came late")
    proxy.stalled = True
    time.sleep(LONGER_THAN_A_SESSION)
    proxy.stalled = False
    load.expect_progress("after nothing came through")
    for _ in range(20):
        proxy.cut()
        time.sleep(0.2)
    load.expect_progress("after every connection was cut, often")
    load.end()
    lines = complaints(broker)
    assert len(lines) <= MOST_LINES, f"{len(lines)} lines, such as {lines[len(lines) // 2]}"
    return broker


def finish(broker):
    """It stops by itself, and its logs are whole."""
    assert broker.stop(), "the broker did not stop by itself"
    verify = [broker.binary, "log", "verify", os.path.join(broker.root, "data")]
    verified = subprocess.run(verify, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert verified.returncode == 0, verified.stdout.decode()[-1000:]


TROUBLES = {
    trouble.__name__: trouble
    for trouble in (sigkill, sigstop, full_disk, read_only, no_descriptors, bad_network)
}


def one(test, root):
    """One trouble, in a process of its own: clients that are still at it end with it."""
    broker = TROUBLES[test](root)
    if broker:
        finish(broker)
        shutil.rmtree(broker.root)


def run_test(folder, test):
    root = os.path.join(folder, "work", test)
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    log = os.path.join(folder, f"{test}.log")
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [os.path.join(folder, "venv", "bin", "python"), __file__, "--one", test, root],
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            status = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            status = f"not done after {LIMIT} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if status == 0:
        shutil.rmtree(root)
        return ("pass", "")
    subprocess.run(["umount", "--lazy", os.path.join(root, "data")], stderr=subprocess.DEVNULL, check=False)
    with open(log, encoding="utf-8", errors="replace") as file:
        last = file.read().splitlines()[-1:]
    return ("fail", f"{status}: {''.join(last)[:1200]}")


def run_tests(folder, _, tests):
    return {test: run_test(folder, test) for test in tests or list(LIST)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
        # Not after the threads of the clients.
        sys.stdout.flush()
        os._exit(0)
    suite.run("bad_day", fetch, {}, run_tests, document=__doc__)
