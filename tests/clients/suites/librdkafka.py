#!/usr/bin/env python3
"""librdkafka 2.12.1: its tests that need a broker, in full mode, in two lanes (about half an hour).

    ODRADEK_BIN=PATH tests/clients/suites/librdkafka.py
    ODRADEK_BIN=PATH tests/clients/suites/librdkafka.py 0011_produce_batch 0019_list_groups
    tests/clients/suites/librdkafka.py --bootstrap 127.0.0.1:9092    # Apache Kafka

Needs gcc, g++, make, zlib1g-dev, libssl-dev, rapidjson-dev, Java 17 and Maven.
"""

import json
import os
import re
import signal
import subprocess
import threading

import suite

CLIENTS = os.path.dirname(suite.HERE)
JARS = os.path.join(CLIENTS, "target", "kafka-jars")
# What the runner takes for the broker's version.
KAFKA_VERSION = "4.1.0"
# Factor on the suite's own limits of time, for machines that are not alone.
PATIENCE = "3"
# A test that takes longer, in seconds, has failed: the longest takes ten minutes on Kafka.
LIMIT = 900

SETTINGS = {"node.id": 0, "num.partitions": 4, "group.min.session.timeout.ms": 1000}

TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-run-class.sh": "",
}

# One broker cannot make topics with three replicas, which some tests ask for.
NEW_TOPIC = "        newt[0] =\n            rd_kafka_NewTopic_new("
REPLICAS = (
    "        if (test_getenv(\"TEST_RF\", NULL))\n"
    "                replication_factor = atoi(test_getenv(\"TEST_RF\", NULL));\n"
)


def fetch(folder):
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked"],
            cwd=CLIENTS, check=True, stdout=subprocess.PIPE,
        ).stdout
    )
    crate = next(p for p in metadata["packages"] if p["name"] == "rdkafka-sys")
    source = os.path.join(os.path.dirname(crate["manifest_path"]), "librdkafka")
    suite.call(["cp", "-r", source, "source"], folder)
    source = os.path.join(folder, "source")
    suite.insert_before(os.path.join(source, "tests", "test.c"), NEW_TOPIC, REPLICAS)
    suite.call(["./configure"], source)
    suite.call(["make", "-j2"], source)
    suite.call(["make", "-C", "tests", "build"], source)
    if not os.path.exists(os.path.join(JARS, "complete")):
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        suite.call(["mvn", "-q", "-B", "-f", "pom.xml", plugin, f"-DoutputDirectory={JARS}"], CLIENTS)
        open(os.path.join(JARS, "complete"), "w", encoding="utf-8").close()
    tools = os.path.join(folder, "kafka", "bin")
    os.makedirs(tools)
    os.symlink(JARS, os.path.join(folder, "kafka", "libs"))
    for tool, java_class in TOOLS.items():
        path = os.path.join(tools, tool)
        with open(path, "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nexec java -cp "$CLASSPATH:{JARS}/*" {java_class} "$@"\n')
        os.chmod(path, 0o755)


def run_number(folder, address, number, scenario, environment, switches, label):
    """One process a number: a test that fails takes the runner with it. The runner's output, and the
    file, called after the `label`, that holds it."""
    work = os.path.join(folder, "source", "tests")
    configuration = os.path.join(folder, f"{label}.conf")
    with open(configuration, "w", encoding="utf-8") as file:
        file.write(f"bootstrap.servers={address}\ntest.timeout.multiplier={PATIENCE}\n")
    environment = dict(
        os.environ,
        **environment,
        LD_LIBRARY_PATH="../src:../src-cpp",
        TEST_KAFKA_VERSION=KAFKA_VERSION,
        TESTS=number,
        RDKAFKA_TEST_CONF=configuration,
        KAFKA_PATH=os.path.join(folder, "kafka"),
        TEST_RF="1",
        BROKERS=address,
    )
    log = os.path.join(folder, f"{label}.log")
    with open(log, "wb") as out:
        process = subprocess.Popen(
            ["./test-runner", "-p1", "-L", "-s", scenario, *switches],
            cwd=work, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with open(log, encoding="utf-8", errors="replace") as file:
        return re.sub(r"\x1b\[[0-9;]*m", "", file.read()), log


def results_of(number, text):
    """What the table at the end of a run says of the number's tests."""
    results = {}
    words = {"PASSED": "pass", "SKIPPED": "skip"}
    for test, result in re.findall(r"^\|\s*(\d{4}_\w+)\s*\|\s*(\w+)\s*\|", text, re.MULTILINE):
        if test.startswith(number):
            failure = re.search(r"^### Test (.*)", text, re.MULTILINE)
            why = failure.group(1) if failure and result not in words else ""
            results[test] = (words.get(result, "fail"), why)
    return results


def in_two_lanes(run_one, items):
    """The tests mostly wait, so two of them wait together."""

    def lane(mine):
        for item in mine:
            run_one(item)

    lanes = [threading.Thread(target=lane, args=(items[start::2],)) for start in (0, 1)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()


def runner(name, scenario="default", environment=(), switches=()):
    """What runs the tests of a list; `switches` are the runner's own."""
    listed = suite.read_list(os.path.join(suite.HERE, f"{name}.tsv"))

    def run_tests(folder, address, tests):
        chosen = tests or [test for test, (result, _) in listed.items() if result == "pass"]
        numbers = sorted({test[:4] for test in chosen})
        results = {}

        def run_one(number):
            label = f"{name}_{number}"
            text, log = run_number(
                folder, address, number, scenario, dict(environment), switches, label
            )
            found = results_of(number, text)
            for test in listed:
                if test.startswith(number):
                    ended = ("fail", f"the runner ended without a result: see {log}")
                    results[test] = found.get(test, ended)

        in_two_lanes(run_one, numbers)
        return results

    return run_tests


def main(name, document, settings=(), **options):
    """A list as a command; the options are the runner's."""
    suite.run(
        name,
        fetch,
        {**SETTINGS, **dict(settings)},
        runner(name, **options),
        source="librdkafka",
        document=document,
    )


if __name__ == "__main__":
    main("librdkafka", __doc__)
