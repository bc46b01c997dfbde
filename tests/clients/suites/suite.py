"""Runs the tests that a client's own authors wrote against the program, and holds what they say
against a list: what passes, and for what is left out the feature of Kafka that it needs.

A suite is a script beside this file; it says how its source is fetched, what settings the broker
needs, and how a set of tests is run. Everything else is here.
"""

import argparse
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(os.path.dirname(HERE), "target", "suites")


# From <sched.h>, <linux/sockios.h> and <net/if.h>.
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


class Broker:
    """The program on a port and in a directory of its own."""

    def __init__(self, binary, settings, port=0, root=None):
        self.binary = binary
        self.settings = settings
        self.root = root or tempfile.mkdtemp(prefix="odradek-suite-")
        self.log = os.path.join(self.root, "broker.log")
        command = [binary, "serve", "--data-dir", os.path.join(self.root, "data")]
        command += ["--listen", f"127.0.0.1:{port}"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline().decode()
        if " on " not in line:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                sys.exit(f"the broker did not start: {log.read()}")
        self.address = line.split(" on ", 1)[1].split(",", 1)[0]

    def kill(self):
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def again(self):
        """A new process at the same address and on the same directory."""
        port = self.address.rsplit(":", 1)[1]
        return Broker(self.binary, self.settings, port, self.root)

    def stop(self):
        """Ends it gracefully; whether it did."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30) == 0
        except subprocess.TimeoutExpired:
            self.process.kill()
            return False


def alone_on_the_loopback():
    """Moves this process into a network of its own, where every port is free. Needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        sys.exit(f"a network of its own needs root: {os.strerror(ctypes.get_errno())}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def read_list(path):
    """A list: test, pass or skip, reason; by test."""
    tests = {}
    with open(path, encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            test, result, reason = line.rstrip("\n").split("\t")
            if result not in ("pass", "skip") or (result == "skip") != bool(reason):
                sys.exit(f"{path}: {test}: a test passes, or is skipped for a reason")
            tests[test] = (result, reason)
    return tests


def on_kafka():
    """How often each test passed on Apache Kafka, and in how many runs; by suite, by test."""
    counts = {}
    with open(os.path.join(HERE, "on_kafka.tsv"), encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            name, test, passed, runs = line.rstrip("\n").split("\t")
            counts.setdefault(name, {})[test] = (int(passed), int(runs))
    return counts


def fetched(name, fetch):
    """The folder of a suite's source and tools; made by `fetch(folder)` once."""
    folder = os.path.join(TARGET, name)
    done = os.path.join(folder, "complete")
    if not os.path.exists(done):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        fetch(folder)
        open(done, "w", encoding="utf-8").close()
    return folder


def call(command, folder, **more):
    """Runs a command that must succeed."""
    subprocess.run(command, cwd=folder, check=True, **more)


def insert_before(path, mark, text):
    """Puts `text` before each `mark` of a fetched source, which must have one."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    if mark not in source:
        sys.exit(f"{path} has no {mark!r}: look whether it still needs {text!r} there")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source.replace(mark, text + mark))


def run(name, fetch, settings, run_tests, source=None, document="", port=0):
    """The whole of a suite, as a command.

    `run_tests(folder, address, tests)` runs these tests (None for all but those skipped) and
    returns {test: (result, words)} with the results "pass", "fail" and "skip". Suites with the same
    `source` share what was fetched. A suite that knows only one `port` gets a network of its own.
    """
    parser = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", help="only these tests, by their names in the list")
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="against a broker that runs already, such as Apache Kafka",
    )
    parser.add_argument("--install", action="store_true", help="fetch and build, and run nothing")
    arguments = parser.parse_args()
    listed = read_list(os.path.join(HERE, f"{name}.tsv"))
    unknown = [test for test in arguments.tests if test not in listed]
    if unknown:
        parser.error(f"{name}.tsv does not have {', '.join(unknown)}")
    folder = fetched(source or name, fetch)
    if arguments.install:
        return
    begun = time.monotonic()
    broker = None
    address = arguments.bootstrap
    if not address:
        binary = os.environ.get("ODRADEK_BIN")
        if not binary:
            sys.exit("ODRADEK_BIN must name the program, or --bootstrap a broker")
        if port:
            alone_on_the_loopback()
        broker = Broker(binary, settings, port)
        address = broker.address
    wanted = {t for t, (result, _) in listed.items() if result == "pass"}
    if arguments.tests:
        wanted &= set(arguments.tests)
    results = run_tests(folder, address, arguments.tests or None)
    flaky = {}
    counts = on_kafka().get(name, {})
    for test in sorted(wanted):
        if results.get(test, ("missing", ""))[0] != "pass":
            # Twice more, alone.
            again = [run_tests(folder, address, [test]).get(test, ("missing", "")) for _ in "12"]
            on_kafka_too = counts.get(test, (1, 1))
            # One that does not always pass on Kafka either need not pass twice.
            enough = all if on_kafka_too[0] == on_kafka_too[1] else any
            if enough(result == "pass" for result, _ in again):
                flaky[test] = results.get(test, ("missing", ""))[1]
                results[test] = ("pass", "")
    wrong = []
    if not wanted:
        # A run that holds nobody to anything would pass.
        wrong.append(f"{name}.tsv expects none of these to pass: {', '.join(arguments.tests)}")
    for test in sorted(wanted):
        result, words = results.get(test, ("did not run", ""))
        if result != "pass":
            wrong.append(f"{test}: {result}: {words}")
    for test, (result, _) in sorted(results.items()):
        if result == "pass" and listed.get(test, ("skip", ""))[0] == "skip":
            wrong.append(f"{test}: passes, and the list does not say so")
        elif result == "fail" and test not in listed:
            wrong.append(f"{test}: fails, and is not in the list")
    if broker:
        if not broker.stop():
            wrong.append("the broker did not stop by itself")
        verified = subprocess.run(
            [os.environ["ODRADEK_BIN"], "log", "verify", os.path.join(broker.root, "data")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if verified.returncode != 0:
            wrong.append(f"log verify: {verified.stdout.decode()[-2000:]}")
        if wrong:
            print(f"the broker's log: {broker.log}")
        else:
            shutil.rmtree(broker.root)
    for test, words in flaky.items():
        passed, runs = counts.get(test, (0, 0))
        print(f"flaky: {test}: failed, and passed alone ({passed} of {runs} on Kafka): {words}")
    for line in wrong:
        print(line)
    passed = sum(1 for test in wanted if results.get(test, ("", ""))[0] == "pass")
    skipped = sum(1 for result, _ in listed.values() if result == "skip")
    seconds = time.monotonic() - begun
    print(
        f"{name}: {passed} of {len(wanted)} passed, {len(flaky)} flaky, "
        f"{skipped} skipped for what is not there, {seconds:.0f} s"
    )
    sys.exit(1 if wrong else 0)
