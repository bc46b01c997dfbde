#!/usr/bin/env python3
"""Kafka's own programs, by what they print: the same against Odradek as against Apache Kafka.

    ODRADEK_BIN=PATH tests/clients/suites/java_tools.py
    ODRADEK_BIN=PATH tests/clients/suites/java_tools.py topics get-offsets

Each test runs some commands against both brokers and compares what they print, without the figures
that measure a machine. At the end DumpLogSegments reads every segment, index, snapshot of producers
and offsets topic that all of that has left behind in Odradek's directory.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import suite

sys.path.insert(0, os.path.join(os.path.dirname(suite.HERE), "differential"))
import brokers  # noqa: E402

LIST = os.path.join(suite.HERE, "java_tools.tsv")
TOOLS = "org.apache.kafka.tools."
SETTINGS = dict(brokers.SETTINGS, **{"group.min.session.timeout.ms": "1000"})
# A tool that hangs is a failure, and not the end of the run.
PATIENCE_S = 120


class Tools:
    """Runs tools against one broker."""

    def __init__(self, broker):
        self.broker = broker

    def run(self, main, *arguments, bootstrap=True):
        """What a tool prints, line by line."""
        arguments = [*(("--bootstrap-server", self.broker.address) if bootstrap else ()), *arguments]
        try:
            ended = subprocess.run(brokers.java(main if "." in main else TOOLS + main, *arguments),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired as late:
            return [*(late.stdout or b"").decode().splitlines(), f"still running after {PATIENCE_S} s"]
        lines = [line for line in ended.stdout.decode().splitlines() if not line.startswith("SLF4J")]
        # A stack trace names lines of Kafka's source, after what it is about.
        lines = [line.rstrip() for line in lines if not re.match(r"\s+at |\s*\.\.\. \d+ more", line)]
        lines = [self.plain(line) for line in lines if line]
        return lines + ([f"exit {ended.returncode}"] if ended.returncode else [])

    def plain(self, line):
        """Without what belongs to one broker or one run."""
        line = line.replace(self.broker.address, "ADDRESS").replace(self.broker.data, "DATA")
        line = line.replace("127.0.0.1:" + self.broker.address.rsplit(":", 1)[1], "ADDRESS")
        line = re.sub(r"TopicId: \S+", "TopicId: ID", line)
        line = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", line)
        # Which error it is counts, and not the broker's sentence about it.
        line = re.sub(r"(errors\.\w+Exception|Error while executing topic command ): .*", r"\1", line)
        # KIP-966: Kafka sets this one for its whole cluster.
        line = line.replace("min.insync.replicas=1,", "")
        return re.sub(r"^\[[-0-9 :,]+\] ", "", line)


def figures(lines):
    """With every number as N: what is measured."""
    return [re.sub(r"-?\d+([.,]\d+)?(E-?\d+)?|NaN|Infinity", "N", line) for line in lines]


def topics(t):
    topic = lambda *arguments: t.run("TopicCommand", *arguments)
    return [
        *topic("--create", "--topic", "tools", "--partitions", "2", "--replication-factor", "1",
               "--config", "retention.ms=100000"),
        *topic("--create", "--topic", "tools"),
        *topic("--create", "--topic", "not a name"),
        *topic("--create", "--topic", "replicated", "--replication-factor", "3"),
        *topic("--alter", "--topic", "tools", "--partitions", "4"),
        *topic("--alter", "--topic", "tools", "--partitions", "1"),
        *topic("--describe", "--topic", "tools"),
        *topic("--describe", "--topic", "unknown"),
        *topic("--create", "--topic", "doomed"),
        *sorted(topic("--list", "--exclude-internal")),
        *topic("--delete", "--topic", "doomed"),
        *topic("--delete", "--topic", "doomed"),
    ]


def configs(t):
    config = lambda *arguments: t.run("kafka.admin.ConfigCommand", *arguments)
    topic = ("--entity-type", "topics", "--entity-name", "configured")
    broker = ("--entity-type", "brokers", "--entity-name", "0")
    return [
        *t.run("TopicCommand", "--create", "--topic", "configured"),
        *config("--alter", *topic, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"),
        *settled(lambda: config("--describe", *topic)),
        *config("--alter", *topic, "--delete-config", "cleanup.policy"),
        *settled(lambda: config("--describe", *topic)),
        *config("--alter", *topic, "--add-config", "retention.ms=soon"),
        *config("--alter", *topic, "--delete-config", "flush.ms"),
        *config("--alter", *broker, "--add-config", "background.threads=12"),
        *settled(lambda: config("--describe", *broker)),
        *config("--alter", *broker, "--delete-config", "background.threads"),
    ]


def settled(ask):
    """Asked a moment later: Kafka's broker learns of a change after its controller."""
    time.sleep(0.5)
    # Of a config's synonyms, those of the topic and of the broker: Kafka adds what its cluster sets.
    return [re.sub(r" synonyms=\{.*\}", "", line) for line in sorted(ask())
            if "min.insync.replicas" not in line]


def producer_performance(t):
    t.run("TopicCommand", "--create", "--topic", "performance", "--partitions", "1")
    lines = t.run("ProducerPerformance", "--topic", "performance", "--num-records", "20000", "--record-size", "100",
                  "--throughput", "-1", "--reporting-interval", "60000")
    sent = re.match(r"\d+ records sent", lines[-1])
    return [sent.group() if sent else "", *figures(lines)]


def consumer_performance(t):
    lines = t.run("ConsumerPerformance", "--topic", "performance", "--num-records", "20000")
    columns = lines[-1].split(", ")
    return [*figures(lines[:-1]), str(len(columns)), *(columns[i] for i in (2, 4) if i < len(columns))]


def end_to_end_latency(t):
    t.run("TopicCommand", "--create", "--topic", "latency", "--partitions", "1")
    lines = t.run("EndToEndLatency", "--topic", "latency", "--num-records", "200", "--producer-acks", "all",
                  "--record-size", "50")
    return sorted(set(figures(lines)))


def verifiable_producer(t):
    t.run("TopicCommand", "--create", "--topic", "verifiable", "--partitions", "1")
    said = []
    for line in t.run("VerifiableProducer", "--topic", "verifiable", "--max-messages", "200", "--acks", "-1"):
        event = json.loads(line) if line.startswith("{") else {"line": line}
        said.append({key: value for key, value in event.items() if key not in ("timestamp", "avg_throughput")})
    # An acknowledgement may overtake the next record, and not another acknowledgement.
    return [json.dumps(event, sort_keys=True) for event in said]


def verifiable_consumer(t):
    names, count, committed = [], 0, None
    for line in t.run("VerifiableConsumer", "--topic", "verifiable", "--group-id", "verifiers", "--max-messages", "200",
                      "--reset-policy", "earliest"):
        event = json.loads(line) if line.startswith("{") else {"name": line}
        if event["name"] not in names:
            names.append(event["name"])
        count += event.get("count", 0) if event["name"] == "records_consumed" else 0
        if event["name"] == "offsets_committed":
            committed = event["offsets"]
    return [*names, str(count), json.dumps(committed)]


def consumer_groups(t):
    group = lambda *arguments: [re.sub(r" +", " ", line) for line in
                                t.run("consumer.group.ConsumerGroupCommand", *arguments)]
    reset = lambda *how: group("--group", "verifiers", "--reset-offsets", "--topic", "verifiable", *how)
    return [
        *sorted(group("--list")),
        *sorted(group("--list", "--state")),
        *group("--describe", "--group", "verifiers"),
        *group("--describe", "--group", "verifiers", "--state"),
        *group("--describe", "--group", "verifiers", "--members"),
        *group("--describe", "--group", "unknown"),
        *reset("--to-earliest", "--dry-run"),
        *reset("--to-offset", "50", "--execute"),
        *reset("--shift-by", "10", "--execute"),
        *reset("--to-datetime", "2030-01-01T00:00:00.000", "--dry-run"),
        *reset("--to-offset", "100000", "--execute"),
        *group("--describe", "--group", "verifiers"),
        *group("--group", "verifiers", "--delete-offsets", "--topic", "verifiable"),
        *group("--group", "verifiers", "--delete-offsets", "--topic", "verifiable"),
        *group("--group", "unknown", "--delete"),
        *group("--group", "verifiers", "--delete"),
    ]


def get_offsets(t):
    offsets = lambda *arguments: t.run("GetOffsetShell", *arguments)
    return [
        *offsets("--topic-partitions", "verifiable:0,performance:0,tools:0-3"),
        *offsets("--topic", "verifiable", "--time", "earliest"),
        *offsets("--topic", "verifiable", "--time", "1000"),
        *offsets("--topic", "verifiable", "--time", "4102444800000"),
        *offsets("--topic", "unknown"),
    ]


def delete_records(t):
    def delete(*partitions):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"version": 1, "partitions": [
                {"topic": topic, "partition": 0, "offset": offset} for topic, offset in partitions]}, file)
            file.flush()
            return t.run("DeleteRecordsCommand", "--offset-json-file", file.name)
    return [
        *delete(("verifiable", 30)), *delete(("verifiable", -1)), *delete(("verifiable", 10 ** 6)),
        *t.run("GetOffsetShell", "--topic", "verifiable", "--time", "earliest"),
    ]


def log_dirs(t):
    lines = t.run("LogDirsCommand", "--describe", "--topic-list", "tools,verifiable")
    # Kafka's order is that of a hash map, and it knows the size of its disk.
    described = json.loads(lines.pop()) if lines and lines[-1].startswith("{") else {}
    for broker in described.get("brokers", []):
        for folder in broker["logDirs"]:
            folder["partitions"].sort(key=lambda one: one["partition"])
            for name in ("totalBytes", "usableBytes"):
                folder.pop(name, None)
            for one in folder["partitions"]:
                # The producers' batches are as large as the moment made them.
                one["size"] = "some" if one["size"] else 0
    return [*lines, json.dumps(described, sort_keys=True)]


def broker_api_versions(t):
    lines = t.run("BrokerApiVersionsCommand")
    # What Odradek does not have is not listed, and that is compared elsewhere.
    return [lines[0], *sorted(line.strip(" ,") for line in lines if "usable: " in line
                              and not re.search(NOT_THERE, line))]


NOT_THERE = (r"Txn|Sasl|Acl|Scram|Quota|DelegationToken|Share|Telemetry|Feature|Unregister|RaftVoter|Streams|"
             r"Controlled|WriteTxn|Transactions|Producers|ListClientMetrics|UNKNOWN|AssignReplicas|Push")

TESTS = {
    "ProducerPerformance": producer_performance,
    "ConsumerPerformance": consumer_performance,
    "VerifiableProducer": verifiable_producer,
    "VerifiableConsumer": verifiable_consumer,
    "EndToEndLatency": end_to_end_latency,
    "topics": topics,
    "configs": configs,
    "consumer-groups": consumer_groups,
    "get-offsets": get_offsets,
    "delete-records": delete_records,
    "log-dirs": log_dirs,
    "broker-api-versions": broker_api_versions,
}
DUMP = "DumpLogSegments"


def dump_log_segments(data, everything):
    """What Kafka's judge of files finds wrong, and how many files it looked at.

    After `everything` there must be files of all kinds.
    """
    files = {"log": [], "index": [], "timeindex": [], "snapshot": []}
    offsets = []
    for folder, _, names in os.walk(data):
        if re.search(r"-\d+$", folder):
            for name in sorted(names):
                files.get(name.rsplit(".", 1)[-1], []).append(os.path.join(folder, name))
            if os.path.basename(folder).startswith("__consumer_offsets"):
                offsets += [os.path.join(folder, name) for name in names if name.endswith(".log")]
    wrong = []
    runs = [(files["log"], ["--deep-iteration"]), (files["index"] + files["timeindex"], ["--verify-index-only"]),
            (files["snapshot"], []), (offsets, ["--offsets-decoder"])]
    for those, options in runs:
        if not those:
            if everything:
                wrong.append(f"nothing to look at for {options}")
            continue
        ended = subprocess.run(brokers.java(TOOLS + DUMP, *options, "--files", ",".join(those)),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = ended.stdout.decode()
        if ended.returncode:
            wrong.append(f"exit {ended.returncode}: {text[-500:]}")
        about = ""
        for line in text.splitlines():
            about = line if line.startswith("Dumping") else about
            # A batch is told with "isvalid: true"; what else is said is a complaint.
            if "isvalid: false" in line or re.search(
                    r"mismatch|corrupt|out of order|Non-consecutive|Found timestamp|Indexed offset|Exception|"
                    r"Could not|is not valid|does not match", line, re.IGNORECASE):
                wrong.append(f"{about}: {line}")
    return wrong, sum(map(len, files.values()))


def main():
    listed = suite.read_list(LIST)
    chosen = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    unknown = [test for test in chosen if test not in listed]
    if unknown:
        sys.exit(f"java_tools.tsv does not have {', '.join(unknown)}")
    brokers.fetch_jars()
    if "--install" in sys.argv:
        return
    begun = time.monotonic()
    kafka, odradek = brokers.Kafka(SETTINGS), None
    wrong = {}
    try:
        odradek = brokers.Odradek(SETTINGS)
        for name, test in TESTS.items():
            if chosen and name not in chosen:
                continue
            expected, told = test(Tools(kafka)), test(Tools(odradek))
            if told != expected:
                wrong[name] = [f"  Kafka    {line}" for line in expected if line not in told]
                wrong[name] += [f"  Odradek  {line}" for line in told if line not in expected]
                wrong[name] = wrong[name] or ["  the same lines in another order"]
            print(f"{name}: {len(expected)} lines, {'not the same' if name in wrong else 'the same'}", flush=True)
        odradek.stop()
        faults, files = dump_log_segments(odradek.data, not chosen)
        print(f"{DUMP}: {files} files, {len(faults)} faults")
        if faults:
            wrong[DUMP] = faults
    finally:
        for broker in (kafka, odradek):
            if broker and broker.process.poll() is None:
                broker.kill()
    done = set(chosen or TESTS) | {DUMP}
    for name, lines in wrong.items():
        print(f"{name}:", *lines, sep="\n")
    bad = [name for name in done if (name in wrong) == (listed[name][0] == "pass")]
    if not bad:
        for broker in (kafka, odradek):
            broker.remove()
    print(f"java_tools: {len(done) - len(bad)} of {len(done)} as listed, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
