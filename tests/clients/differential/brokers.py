"""The two brokers of a comparison, each in a fresh directory with the same settings."""

import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CLIENTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JARS = os.path.join(CLIENTS, "target", "kafka-jars")

# What both are told beside their addresses. Groups need no patience: nobody joins late by chance.
SETTINGS = {
    "node.id": "0",
    "num.partitions": "2",
    "auto.create.topics.enable": "true",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "3",
    "group.consumer.max.size": "3",
    "offset.metadata.max.bytes": "100",
    # The records of the script are years old, so that their timestamps are the same in every run.
    "log.retention.ms": "-1",
}


def fetch_jars():
    subprocess.run([os.path.join(CLIENTS, "fetch-jars")], check=True, stdout=subprocess.DEVNULL)


def jar_of_clients():
    return glob.glob(os.path.join(JARS, "kafka-clients-*.jar"))[0]


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % free.getsockname()[1]


def java(main, *arguments, memory="256m", options=()):
    """The command that runs one of Kafka's programs. It is to start soon and to stay small."""
    return ["nice", "java", f"-Xmx{memory}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options,
            "-cp", os.path.join(JARS, "*"), main, *arguments]


class Broker:
    """A process that listens at `address`, with its files below `root`."""

    def __init__(self, name, settings=None):
        self.root = tempfile.mkdtemp(prefix=f"differential-{name}-")
        self.data = os.path.join(self.root, "data")
        self.log = os.path.join(self.root, "log")
        self.settings = dict(SETTINGS if settings is None else settings)
        self.address = free_address()
        self.process = None

    def launch(self, command):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        host, port = self.address.rsplit(":", 1)
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.log, encoding="utf-8", errors="replace") as log:
                    sys.exit(f"{command[0]} did not start: {log.read()[-3000:]}")
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        shutil.rmtree(self.root)


class Odradek(Broker):
    def __init__(self, settings=None):
        super().__init__("odradek", settings)
        self.binary = os.environ.get("ODRADEK_BIN")
        if not self.binary:
            sys.exit("ODRADEK_BIN must name the program")
        self.start()

    def start(self):
        settings = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        self.launch([self.binary, "serve", "--data-dir", self.data, "--listen", self.address, *settings])


class Kafka(Broker):
    """One node that is broker and controller."""

    def __init__(self, settings=None):
        super().__init__("kafka", settings)
        self.properties = os.path.join(self.root, "properties")
        controller = free_address()
        own = {
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"0@{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.data,
            # KIP-848 groups are assigned as soon as they change, as Odradek does.
            "group.consumer.assignment.interval.ms": "0",
        }
        with open(self.properties, "w", encoding="utf-8") as file:
            for key, value in {**self.settings, **own}.items():
                file.write(f"{key}={value}\n")
        formatted = subprocess.run(
            java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", self.properties),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if formatted.returncode != 0:
            sys.exit(formatted.stdout.decode())
        self.start()

    def start(self):
        self.launch(java("kafka.Kafka", self.properties, memory="512m"))
