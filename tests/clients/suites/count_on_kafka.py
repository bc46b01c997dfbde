#!/usr/bin/env python3
"""Runs a suite, or some of its tests, three times against Apache Kafka 4.3.1, and writes into
on_kafka.tsv how often each passed.

    tests/clients/suites/count_on_kafka.py franz_go
    tests/clients/suites/count_on_kafka.py librdkafka 0052_msg_timestamps 0113_cooperative_rebalance

The broker has the settings that the suites need of Kafka: an authorizer that allows everything, sessions
of a second, and topics of its own with one replica.
"""

import importlib
import os
import sys

import suite

sys.path.insert(0, os.path.join(os.path.dirname(suite.HERE), "differential"))
import brokers  # noqa: E402

RUNS = 3
LIST = os.path.join(suite.HERE, "on_kafka.tsv")

SETTINGS = {
    "node.id": "0",
    "num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.min.session.timeout.ms": "1000",
}


def run_tests_of(name):
    """What runs the tests of a suite, and its folder."""
    import librdkafka

    lists = {
        "librdkafka": {},
        "librdkafka_no_auto_creation": {"scenario": "noautocreate"},
        "librdkafka_consumer_protocol": {"environment": {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}},
    }
    if name in lists:
        return librdkafka.runner(name, **lists[name]), suite.fetched("librdkafka", librdkafka.fetch)
    module = importlib.import_module(name)
    return module.run_tests, suite.fetched(name, module.fetch)


def write(name, passed):
    with open(LIST, encoding="utf-8") as file:
        lines = file.readlines()
    for place, line in enumerate(lines):
        of, test, *_ = line.rstrip("\n").split("\t")
        if of == name and test in passed:
            lines[place] = f"{name}\t{test}\t{passed[test]}\t{RUNS}\n"
    with open(LIST, "w", encoding="utf-8") as file:
        file.writelines(lines)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    name, tests = sys.argv[1], sys.argv[2:]
    run_tests, folder = run_tests_of(name)
    listed = suite.read_list(os.path.join(suite.HERE, f"{name}.tsv"))
    tests = tests or [test for test, (result, _) in listed.items() if result == "pass"]
    brokers.fetch_jars()
    settings = dict(SETTINGS)
    if name == "librdkafka_no_auto_creation":
        settings["auto.create.topics.enable"] = "false"
    kafka = brokers.Kafka(settings)
    passed = dict.fromkeys(tests, 0)
    try:
        for run in range(RUNS):
            results = run_tests(folder, kafka.address, tests)
            for test in tests:
                result, words = results.get(test, ("did not run", ""))
                passed[test] += result == "pass"
                if result != "pass":
                    print(f"run {run + 1}: {test}: {result}: {words}", flush=True)
    finally:
        kafka.stop()
        kafka.remove()
    write(name, passed)
    flaky = sum(1 for count in passed.values() if count < RUNS)
    print(f"{name}: {len(tests)} tests, {RUNS} runs on Kafka, {flaky} did not always pass")


if __name__ == "__main__":
    main()
