#!/usr/bin/env python3
"""Kafka Streams and Kafka Connect: a word count, and a file that is copied through a topic.

    ODRADEK_BIN=PATH tests/clients/suites/java_pipelines.py
    ODRADEK_BIN=PATH tests/clients/suites/java_pipelines.py "Streams word count"

Each runs once undisturbed, and once with the broker killed (SIGKILL) and started again while data is
on its way. Both promise at least once: nothing may be missing, and after the kill a word may be counted
or a line copied once more.
"""

import collections
import os
import shutil
import subprocess
import sys
import tempfile
import time

import suite

sys.path.insert(0, os.path.join(os.path.dirname(suite.HERE), "differential"))
import brokers  # noqa: E402

LIST = os.path.join(suite.HERE, "java_pipelines.tsv")
PATIENCE_S = 120


class Failure(Exception):
    pass


def install():
    brokers.fetch_jars()
    if not shutil.which("javac"):
        subprocess.run(["apt-get", "update", "-q"], check=True)
        subprocess.run(["apt-get", "install", "-q", "-y", "--no-install-recommends", "default-jdk-headless"], check=True)
    classes = os.path.join(suite.TARGET, "word-count")
    os.makedirs(classes, exist_ok=True)
    source = os.path.join(suite.HERE, "WordCount.java")
    suite.call(["javac", "-cp", os.path.join(brokers.JARS, "*"), "-d", classes, source], suite.HERE)
    return classes


def wait(what, is_so):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {PATIENCE_S} s")
        time.sleep(0.3)


def odradek(broker, *arguments, lines=None):
    """A command of the program, as a client of the broker."""
    command = [broker.binary, *arguments, "--bootstrap", broker.address]
    text = None if lines is None else "".join(line + "\n" for line in lines).encode()
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
                          timeout=60).stdout.decode()


class Program:
    """One of Kafka's long-running programs."""

    def __init__(self, folder, command):
        self.log = os.path.join(folder, "program.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def check(self):
        if self.process.poll() is not None:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise Failure(f"ended with {self.process.returncode}: {log.read()[-3000:]}")
        return True

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def text_lines(first, count):
    words = ["log", "broker", "offset", "batch", "epoch", "leader", "segment"]
    return [" ".join(words[(i * k) % len(words)] for k in (1, 2, 3, 5)) + f" line-{i}" for i in range(first, first + count)]


def last_counts(broker):
    """The newest count of each word."""
    described = odradek(broker, "consume", "counts", "--from", "beginning", "--exit-at-end")
    counts = {}
    for line in described.splitlines():
        word, _, count = line.rpartition(" ")
        if count.isdigit():
            counts[word] = int(count)
    return counts


def word_count(broker, folder, classes, with_kill):
    for topic in ("lines", "counts"):
        odradek(broker, "topic", "create", topic, "--partitions", "2")
    program = Program(folder, ["nice", "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                               f"{classes}:{brokers.JARS}/*", "WordCount", broker.address, os.path.join(folder, "state")])
    try:
        lines = text_lines(0, 2000)
        odradek(broker, "produce", "lines", lines=lines)
        complete = lambda: program.check() and is_complete(last_counts(broker), lines)
        wait("the first half is counted", complete)
        exact = last_counts(broker) == collections.Counter(word for line in lines for word in line.split())
        if not exact:
            raise Failure("counted more than there was, undisturbed")
        if with_kill:
            more = text_lines(2000, 2000)
            lines += more
            odradek(broker, "produce", "lines", lines=more)
            broker.kill()
            time.sleep(1)
            broker.start()
            more = text_lines(4000, 500)
            lines += more
            odradek(broker, "produce", "lines", lines=more)
            wait("all is counted after the kill", complete)
    finally:
        program.stop()


def is_complete(counts, lines):
    expected = collections.Counter(word for line in lines for word in line.split())
    return all(counts.get(word, 0) >= count for word, count in expected.items())


def file_pipeline(broker, folder, _classes, with_kill):
    # Of one partition, or the lines have no order to compare.
    odradek(broker, "topic", "create", "copied", "--partitions", "1")
    source, sink = os.path.join(folder, "source.txt"), os.path.join(folder, "sink.txt")
    worker = {
        "bootstrap.servers": broker.address,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": os.path.join(folder, "offsets"),
        "offset.flush.interval.ms": "500",
        "listeners": f"http://{brokers.free_address()}",
        "plugin.discovery": "service_load",
    }
    kind = "org.apache.kafka.connect.file.FileStream"
    one = {"name": "source", "connector.class": kind + "SourceConnector", "tasks.max": "1", "file": source,
           "topic": "copied"}
    other = {"name": "sink", "connector.class": kind + "SinkConnector", "tasks.max": "1", "file": sink,
             "topics": "copied"}
    paths = []
    for name, settings in (("worker", worker), ("source", one), ("sink", other)):
        paths.append(os.path.join(folder, f"{name}.properties"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())
    lines = [f"line {i}" for i in range(1000)]
    append(source, lines)
    program = Program(folder, brokers.java("org.apache.kafka.connect.cli.ConnectStandalone", *paths))
    try:
        wait("the file is copied", lambda: program.check() and copied(sink) == lines)
        if with_kill:
            append(source, [f"line {i}" for i in range(1000, 2000)])
            broker.kill()
            append(source, [f"line {i}" for i in range(2000, 2500)])
            time.sleep(1)
            broker.start()
            append(source, [f"line {i}" for i in range(2500, 3000)])
            lines = [f"line {i}" for i in range(3000)]
            wait("all is copied after the kill", lambda: program.check() and list(dict.fromkeys(copied(sink))) == lines)
    finally:
        program.stop()


def append(path, lines):
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def copied(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


TESTS = {
    "Streams word count": (word_count, False),
    "Streams word count, broker killed": (word_count, True),
    "Connect file pipeline": (file_pipeline, False),
    "Connect file pipeline, broker killed": (file_pipeline, True),
}


def run(name, classes):
    """What went wrong, if anything did."""
    test, with_kill = TESTS[name]
    broker = brokers.Odradek(brokers.SETTINGS)
    folder = tempfile.mkdtemp(prefix="odradek-pipeline-")
    try:
        test(broker, folder, classes, with_kill)
    except Failure as failure:
        return f"{failure}; logs: {broker.log}, {folder}"
    except subprocess.SubprocessError as failure:
        output = (getattr(failure, "stdout", None) or b"").decode()[-500:]
        return f"{failure}: {output}; logs: {broker.log}, {folder}"
    finally:
        if broker.process.poll() is None:
            broker.stop()
    verified = subprocess.run([broker.binary, "log", "verify", broker.data], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    if verified.returncode:
        return f"log verify: {verified.stdout.decode()[-1000:]}"
    broker.remove()
    shutil.rmtree(folder)
    return None


def main():
    listed = suite.read_list(LIST)
    chosen = [argument for argument in sys.argv[1:] if argument != "--install"]
    unknown = [test for test in chosen if test not in listed]
    if unknown:
        sys.exit(f"java_pipelines.tsv does not have {', '.join(unknown)}")
    classes = install()
    if "--install" in sys.argv:
        return
    begun = time.monotonic()
    bad = 0
    for name in chosen or TESTS:
        wrong = run(name, classes)
        print(f"{name}: {wrong or 'right'}", flush=True)
        bad += (wrong is None) != (listed[name][0] == "pass")
    count = len(chosen or TESTS)
    print(f"java_pipelines: {count - bad} of {count} as listed, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
