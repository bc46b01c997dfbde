#!/usr/bin/env python3
"""rust-rdkafka 0.39.0: its tests, over librdkafka, in a network of their own (about two minutes).

    ODRADEK_BIN=PATH tests/clients/suites/rust_rdkafka.py
    ODRADEK_BIN=PATH tests/clients/suites/rust_rdkafka.py test_admin::test_topics
    tests/clients/suites/rust_rdkafka.py --bootstrap 127.0.0.1:9092    # Apache Kafka, on this port only

Needs root, a C compiler, make, and the headers of zlib.
"""

import json
import os
import signal
import subprocess

import suite

VERSION = "0.39.0"
CLIENTS = os.path.dirname(suite.HERE)
# One of the tests knows the port, and the number of partitions.
PORT = 9092
PARTITIONS = 3
# What the tests take for the broker's version.
KAFKA_VERSION = "4.1.0"
# A test that takes longer, in seconds, has failed: the longest takes 16 on Kafka.
LIMIT = 90

LIST = suite.read_list(os.path.join(suite.HERE, "rust_rdkafka.tsv"))


def fetch(folder):
    """The crate's own source, which the tests of this folder are built with too."""
    subprocess.run(["cargo", "fetch", "--locked"], cwd=CLIENTS, check=True)
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked"],
            cwd=CLIENTS, check=True, stdout=subprocess.PIPE,
        ).stdout
    )
    crate = next(
        p for p in metadata["packages"] if p["name"] == "rdkafka" and p["version"] == VERSION
    )
    suite.call(["cp", "-r", os.path.dirname(crate["manifest_path"]), "source"], folder)
    source = os.path.join(folder, "source")
    # It is no part of the workspace that it lies in.
    with open(os.path.join(source, "Cargo.toml"), "a", encoding="utf-8") as manifest:
        manifest.write("\n[workspace]\n")
    built = subprocess.run(
        ["cargo", "test", "--locked", "--no-run", "--tests", "--message-format", "json"],
        cwd=source, check=True, stdout=subprocess.PIPE,
    ).stdout.decode()
    programs = {}
    for line in built.splitlines():
        message = json.loads(line)
        if message.get("executable") and "test" in message["target"]["kind"]:
            programs[message["target"]["name"]] = message["executable"]
    with open(os.path.join(folder, "programs.json"), "w", encoding="utf-8") as file:
        json.dump(programs, file)


def run_test(folder, program, test, environment):
    """One process a test: "pass", or the end of what it said."""
    log = os.path.join(folder, "run.log")
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [program, "--exact", test, "--test-threads=1", "--nocapture"],
            cwd=os.path.join(folder, "source"), env=environment,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            status = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return ("fail", f"not done after {LIMIT} s")
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if status == 0 and "1 passed" in text:
        return ("pass", "")
    panic = [line for line in text.splitlines() if "panicked" in line or "assert" in line]
    return ("fail", (panic or text.splitlines() or ["nothing"])[-1][:300])


def run_tests(folder, address, tests):
    with open(os.path.join(folder, "programs.json"), encoding="utf-8") as file:
        programs = json.load(file)
    environment = dict(os.environ, KAFKA_HOST=address, KAFKA_VERSION=KAFKA_VERSION)
    results = {}
    for test in tests or [t for t, (result, _) in LIST.items() if result == "pass"]:
        program, _, name = test.partition("::")
        results[test] = run_test(folder, programs[program], name, environment)
    return results


if __name__ == "__main__":
    suite.run(
        "rust_rdkafka",
        fetch,
        {"node.id": 0, "num.partitions": PARTITIONS, "group.min.session.timeout.ms": 1000},
        run_tests,
        document=__doc__,
        port=PORT,
    )
