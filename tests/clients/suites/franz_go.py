#!/usr/bin/env python3
"""franz-go 1.22.3: the tests of pkg/kgo that need a broker.

    ODRADEK_BIN=PATH tests/clients/suites/franz_go.py
    ODRADEK_BIN=PATH tests/clients/suites/franz_go.py TestGroupETL
    tests/clients/suites/franz_go.py --bootstrap 127.0.0.1:9092    # Apache Kafka
"""

import os
import re
import subprocess

import suite

MODULE = "github.com/twmb/franz-go"
VERSION = "v1.22.3"

LIST = suite.read_list(os.path.join(suite.HERE, "franz_go.tsv"))


def fetch(folder):
    go = dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="-mod=mod")
    with open(os.path.join(folder, "go.mod"), "w", encoding="utf-8") as module:
        module.write("module suite\n\ngo 1.24\n")
    suite.call(["go", "get", f"{MODULE}@{VERSION}"], folder, env=go)
    source = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", MODULE],
        cwd=folder, env=go, check=True, stdout=subprocess.PIPE,
    ).stdout.decode().strip()
    suite.call(["cp", "-r", source, "source"], folder)
    suite.call(["chmod", "-R", "u+w", "source"], folder)
    go.pop("GOFLAGS")
    suite.call(
        ["go", "test", "-c", "-o", "../kgo.test", "./pkg/kgo"],
        os.path.join(folder, "source"), env=go,
    )


def run_tests(folder, address, tests):
    environment = dict(
        os.environ,
        KGO_SEEDS=address,
        KGO_TEST_RF="1",
        KGO_TEST_RECORDS="10000",
        KGO_LOG_LEVEL="none",
    )
    chosen = tests or [test for test, (result, _) in LIST.items() if result == "pass"]
    pattern = "^(" + "|".join(chosen) + ")$"
    log = os.path.join(folder, "run.log")
    with open(log, "wb") as out:
        subprocess.run(
            ["../../../kgo.test", "-test.v", "-test.timeout", "300s", "-test.run", pattern],
            cwd=os.path.join(folder, "source", "pkg", "kgo"),
            env=environment, stdout=out, stderr=subprocess.STDOUT, check=False,
        )
    with open(log, encoding="utf-8", errors="replace") as lines:
        text = lines.read()
    words = {"PASS": "pass", "FAIL": "fail", "SKIP": "skip"}
    found = re.findall(r"^--- (PASS|FAIL|SKIP): (\w+) ", text, re.MULTILINE)
    return {test: (words[result], f"see {log}" if result == "FAIL" else "") for result, test in found}


if __name__ == "__main__":
    suite.run(
        "franz_go",
        fetch,
        {"node.id": 0, "num.partitions": 4, "group.min.session.timeout.ms": 1000},
        run_tests,
        document=__doc__,
    )
