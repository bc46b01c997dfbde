#!/usr/bin/env python3
"""Holds the lists against on_kafka.tsv, which says how often each test of the clients' suites passed on
Apache Kafka 4.3.1, in how many runs: what passes there passes here, or waits for a feature by its name.

    tests/clients/suites/yardstick.py            the table, and 1 if a test is missing
    tests/clients/suites/yardstick.py --all      with every test that waits
"""

import collections
import os
import sys

import suite

# What keeps a test that passes on Kafka from passing here. Anything else is a fault.
FEATURES = ["transactions", "access control lists", "SCRAM", "SASL", "TLS", "share groups", "three brokers"]


def main():
    every = sys.argv[1:] == ["--all"]
    if sys.argv[1:] and not every:
        sys.exit(__doc__)
    missing = []
    print(f"{'suite':30} {'Kafka':>6} {'here':>6}  what waits for a feature")
    for name, counts in suite.on_kafka().items():
        listed = suite.read_list(os.path.join(suite.HERE, f"{name}.tsv"))
        passing = 0
        waiting = collections.defaultdict(list)
        for test in sorted(test for test, (passed, _) in counts.items() if passed):
            result, reason = listed.get(test, ("unknown", "not in the list"))
            if result == "pass":
                passing += 1
            elif all(part in FEATURES for part in reason.split(", ")):
                waiting[reason].append(test)
            else:
                missing.append(f"{name}: {test}: passes on Kafka, and here: {reason}")
        for test in sorted(set(listed) - set(counts)):
            missing.append(f"{name}: {test}: nobody has seen it on Kafka")
        total = sum(1 for passed, _ in counts.values() if passed)
        words = "; ".join(f"{reason} ({len(tests)})" for reason, tests in sorted(waiting.items()))
        print(f"{name:30} {total:6} {passing:6}  {words}")
        for reason, tests in sorted(waiting.items()) if every else []:
            for test in tests:
                print(f"{'':45}  {reason}: {test}")
    for name, counts in suite.on_kafka().items():
        for test, (passed, runs) in counts.items():
            if 0 < passed < runs:
                print(f"flaky on Kafka: {name}: {test}: {passed} of {runs}")
    for line in missing:
        print(line)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
