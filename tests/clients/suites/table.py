#!/usr/bin/env python3
"""Writes the README's table of client suites from their lists.

    tests/clients/suites/table.py            prints it
    tests/clients/suites/table.py --write    puts it into README.md
    tests/clients/suites/table.py --check    fails if README.md has another one
"""

import collections
import os
import sys

import suite

BEGIN = "<!-- suites: made by tests/clients/suites/table.py -->\n"
END = "<!-- end of suites -->\n"

SUITES = [
    ("librdkafka", "librdkafka 2.12.1 (C, C++)", "classic groups"),
    ("librdkafka_idempotence", "librdkafka 2.12.1", "idempotence in every producer"),
    ("librdkafka_no_auto_creation", "librdkafka 2.12.1", "no creation of topics by use"),
    ("librdkafka_consumer_protocol", "librdkafka 2.12.1", "KIP-848"),
    ("franz_go", "franz-go 1.22.3 (Go)", "classic groups and KIP-848"),
    ("kafka_python", "kafka-python 3.0.12 (Python)", "classic groups"),
    ("java_tools", "Apache Kafka's programs 4.3.1 (Java)", "what they print, held against Kafka"),
    ("java_pipelines", "Kafka Streams and Connect 4.3.1 (Java)", "also with the broker killed"),
    ("rust_rdkafka", "rust-rdkafka 0.39.0 (Rust)", "classic groups"),
    ("smoke", "kafkajs 2.2.4, aiokafka 0.12.0, confluent-kafka 2.12.1, sarama 1.61.1, kafka-go 0.4.51", "scenarios of our own"),
    ("bad_day", "confluent-kafka 2.12.1 and kafka-python 3.0.12", "through a bad disk and a bad network"),
]


def table():
    lines = [
        "| client, and its own tests unless it says otherwise | pass | not there yet |\n",
        "|---|---|---|\n",
    ]
    for name, title, groups in SUITES:
        listed = suite.read_list(os.path.join(suite.HERE, f"{name}.tsv"))
        passing = sum(1 for result, _ in listed.values() if result == "pass")
        missing = collections.Counter(reason for result, reason in listed.values() if result == "skip")
        words = "; ".join(f"{reason} ({count})" for reason, count in sorted(missing.items()))
        lines.append(f"| {title}, {groups} | {passing} of {len(listed)} | {words} |\n")
    return "".join(lines)


def main():
    readme = os.path.join(suite.HERE, "..", "..", "..", "README.md")
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    if sys.argv[1:] == []:
        print(table(), end="")
        return
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    wanted = before + BEGIN + table() + END + after
    if sys.argv[1:] == ["--write"]:
        with open(readme, "w", encoding="utf-8") as file:
            file.write(wanted)
    elif sys.argv[1:] == ["--check"]:
        if text != wanted:
            sys.exit("the README's table of suites is not what the lists say: run table.py --write")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
