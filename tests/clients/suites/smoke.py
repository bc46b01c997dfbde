#!/usr/bin/env python3
"""Clients whose own tests cannot be run against a broker from outside: what a user does first with
each, as programs in `smoke/`. Produce and read back, with each codec and headers; a group of three of
which one leaves; a SIGKILL of the broker between two halves; the calls of an administrator.

    ODRADEK_BIN=PATH tests/clients/suites/smoke.py
    ODRADEK_BIN=PATH tests/clients/suites/smoke.py kafkajs::group
    tests/clients/suites/smoke.py --bootstrap 127.0.0.1:9092    # Apache Kafka, without the restarts

Needs Node.js with npm, and Go.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading

import suite

PROGRAMS = os.path.join(suite.HERE, "smoke")
NODE_PACKAGES = ["kafkajs@2.2.4", "kafkajs-snappy@1.1.0"]
PYTHON_PACKAGES = ["aiokafka==0.12.0", "cramjam==2.11.0", "confluent-kafka==2.12.1"]
GO_MODULES = {
    "sarama": "github.com/IBM/sarama@v1.61.1",
    "kafka_go": "github.com/segmentio/kafka-go@v0.4.51",
}
# A scenario that takes longer, in seconds, has failed.
LIMIT = 120
SETTINGS = {"node.id": 0, "group.initial.rebalance.delay.ms": 500}

LIST = suite.read_list(os.path.join(suite.HERE, "smoke.tsv"))


def fetch(folder):
    suite.call(["npm", "install", "--silent", "--no-audit", "--no-fund", *NODE_PACKAGES], folder)
    suite.call([sys.executable, "-m", "venv", "venv"], folder)
    suite.call(["venv/bin/pip", "install", "-q", *PYTHON_PACKAGES], folder)
    for name, module in GO_MODULES.items():
        source = os.path.join(folder, name)
        shutil.copytree(os.path.join(PROGRAMS, name), source)
        with open(os.path.join(source, "go.mod"), "w", encoding="utf-8") as file:
            file.write(f"module {name}\n\ngo 1.24\n")
        suite.call(["go", "get", module], source, env=go_environment())
        build(folder, name)


def go_environment():
    return dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="-mod=mod")


def build(folder, name):
    """Quick if nothing changed since the last time."""
    source = os.path.join(folder, name)
    shutil.copy(os.path.join(PROGRAMS, name, "main.go"), source)
    suite.call(["go", "build", "-o", f"../{name}.smoke", "."], source, env=go_environment())


def command(folder, client):
    if client == "kafkajs":
        return ["node", os.path.join(PROGRAMS, "kafkajs", "smoke.js")]
    if client in GO_MODULES:
        return [os.path.join(folder, f"{client}.smoke")]
    return [os.path.join(folder, "venv", "bin", "python"), os.path.join(PROGRAMS, f"{client}_smoke.py")]


def run_scenario(folder, client, scenario, address, at_half=None):
    """One process a scenario: "pass", or the end of what it said. At its half, if it has one, the
    program says so and waits for a line."""
    process = subprocess.Popen(
        [*command(folder, client), scenario, address],
        env=dict(os.environ, NODE_PATH=os.path.join(folder, "node_modules")),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, text=True, errors="replace",
    )
    stopped = threading.Event()

    def stop():
        stopped.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(LIMIT, stop)
    timer.start()
    said = []
    for line in process.stdout:
        if line == "half\n" and at_half:
            at_half()
            process.stdin.write("\n")
            process.stdin.flush()
        else:
            said.append(line.rstrip())
    status = process.wait()
    timer.cancel()
    if stopped.is_set():
        return ("fail", f"not done after {LIMIT} s: {' | '.join(said[-5:])[:500]}")
    return ("pass", "") if status == 0 else ("fail", " | ".join(said[-12:])[:1500])


def run_across_a_restart(folder, client, scenario):
    """With a broker of its own, which is killed at the half."""
    brokers = [suite.Broker(os.environ["ODRADEK_BIN"], SETTINGS)]

    def restart():
        brokers[0].kill()
        brokers.append(brokers[0].again())

    result = run_scenario(folder, client, scenario, brokers[0].address, restart)
    if not brokers[-1].stop():
        result = ("fail", "the broker did not stop by itself")
    if result[0] == "pass":
        shutil.rmtree(brokers[0].root)
    return result


def run_tests(folder, address, tests):
    for name in GO_MODULES:
        build(folder, name)
    results = {}
    for test in tests or [t for t, (result, _) in LIST.items() if result == "pass"]:
        client, scenario = test.split("::")
        if scenario != "restart":
            results[test] = run_scenario(folder, client, scenario, address)
        elif "ODRADEK_BIN" in os.environ:
            results[test] = run_across_a_restart(folder, client, scenario)
    return results


if __name__ == "__main__":
    suite.run("smoke", fetch, SETTINGS, run_tests, document=__doc__)
