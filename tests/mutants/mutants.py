"""The sample, the tree it stands in, and what the simulator says to each of it. See `run`."""

import argparse
import atexit
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys

import schemata

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRATCH = ROOT / "target" / "mutants"
TREE, BUILD = SCRATCH / "tree", SCRATCH / "build"
# There if the tree is as it was built.
BUILT = SCRATCH / "built"
TABLE = ROOT / "results" / "mutants.tsv"
CARGO = os.environ.get("CARGO", "cargo")

# Log, recovery, partition and long-poll.
ROOMS = [
    "core/src/log.rs", "core/src/log/**/*.rs", "core/src/checkpoint.rs", "core/src/broker/start.rs",
    "core/src/broker/state.rs", "core/src/partition.rs", "core/src/partition/**/*.rs", "core/src/read_job.rs",
    "core/src/request/fetch.rs",
]
# Built only for tests.
NOT = ["**/tests.rs", "**/tests/**", "**/harness.rs"]

# Seconds of processor time in each workload.
MIX = {"mixed": 6.0, "damage": 2.0, "compaction": 1.0, "idempotence": 1.0}
MIX_OF = {
    "core/src/log/cleaner": {"compaction": 8.0, "mixed": 1.0, "damage": 1.0},
    "core/src/log/producer": {"idempotence": 6.0, "mixed": 4.0},
    "core/src/log/load_producers": {"idempotence": 6.0, "mixed": 4.0},
}
# Seeds a process.
PIECE = 50
# A process that takes so much has no end, in seconds of processor time, seconds, and bytes.
LIMIT_CPU, LIMIT_WALL, LIMIT_BYTES = 8, 200, 4 << 30

COLUMNS = ["number", "place", "function", "mutant", "verdict", "by", "workload", "seed", "reached", "seconds"]


def main():
    arguments = argparse.ArgumentParser(prog="tests/mutants/run")
    arguments.add_argument("--seed", type=int, default=4, help="of the sample")
    arguments.add_argument("--count", type=int, default=160, help="how many mutants")
    arguments.add_argument("--only", type=int, action="append", help="a mutant's number")
    arguments.add_argument("--survivors", action="store_true", help="those that survived by the table")
    arguments.add_argument("--rest", action="store_true", help="those that the table does not have yet")
    arguments.add_argument("--tests", action="store_true", help="ask the core's tests, not the simulator")
    arguments.add_argument("--show", type=int, help="print this mutant")
    arguments.add_argument("--times", type=float, default=1.0, help="as long as usual: 6 is a minute each")
    arguments = arguments.parse_args()

    sample, struck, total = plant(draw(arguments.seed), arguments.count)
    if arguments.show is not None:
        show(sample, arguments.show)
        return
    chosen = [number for number, _ in sample]
    rows = read_table()
    if arguments.survivors:
        chosen = [number for number in chosen if rows.get(number, {}).get("verdict") == "survived"]
    if arguments.rest:
        chosen = [number for number in chosen if number not in rows]
    if arguments.only:
        chosen = arguments.only
    # How the code itself fares comes first.
    judge = tests() if arguments.tests else simulator(arguments.times)
    for start in ["", *MIX_OF]:
        unchanged = judge({"file": start}, 0)
        if unchanged["verdict"] != "survived":
            sys.exit(f"the code itself does not pass: {unchanged}")
    for number, mutant in sample:
        if number not in chosen:
            continue
        row = describe(number, mutant) | judge(mutant, number)
        print("\t".join(str(row[column]) for column in COLUMNS), flush=True)
        if not arguments.tests:
            rows[number] = row
            write_table(rows, sample)
    if arguments.tests:
        return
    verdicts = [rows[number]["verdict"] for number, _ in sample if number in rows]
    killed = verdicts.count("killed")
    print(f"{total} mutants in these rooms; sample of seed {arguments.seed}: {len(sample)} "
          f"({struck} drawn that are none, in their places the next); {killed} of {len(verdicts)} killed, "
          f"{100 * killed / max(len(verdicts), 1):.0f} %")


# The sample and its tree.

def draw(seed):
    """All mutants there are, shuffled."""
    command = [CARGO, "mutants", "--list", "--json", "-p", "odradek-core"]
    for room in ROOMS:
        command += ["--file", room]
    for room in NOT:
        command += ["--exclude", room]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    found = sorted(json.loads(listed.stdout), key=lambda mutant: mutant["name"])
    random.Random(seed).shuffle(found)
    return found


def plant(drawn, count):
    """Builds the first mutants of the list that can be built, and returns them with their numbers, how
    many were passed over, and how many there are.

    Passed over is what the compiler refuses, or what no switch can be made of.
    """
    names = [mutant["name"] for mutant in drawn]
    struck, loosened = remembered(names)
    copy_tree({mutant["file"] for mutant in drawn} | {path for path, _ in loosened})
    while True:
        files = {path: schemata.File((ROOT / path).read_text()) for path in {mutant["file"] for mutant in drawn}}
        tried = []
        for number, mutant in enumerate(drawn, 1):
            # More than are asked for, since some will be struck.
            if len(tried) == count + count // 2:
                break
            if number in struck:
                continue
            try:
                files[mutant["file"]].add(number, mutant)
                tried.append((number, mutant))
            except schemata.Untranslatable as reason:
                print(f"no switch for {mutant['name']}: {reason}", file=sys.stderr)
                struck.add(number)
        for path, name in loosened:
            files.setdefault(path, schemata.File((ROOT / path).read_text())).free_of_const(name)
        texts = {path: file.text() for path, file in files.items()}
        for path, text in texts.items():
            put(TREE / path, text)
        wrong, loose = build(texts, tried) if not BUILT.exists() else (set(), set())
        if not wrong and not loose:
            break
        struck |= wrong
        loosened |= loose
    remember(names, struck, loosened)
    sample = tried[:count]
    last = sample[-1][0]
    return sample, len([number for number in struck if number <= last]), len(drawn)


REMEMBERED = SCRATCH / "struck.json"


def remembered(names):
    """What did not compile the last time, if the mutants are the same."""
    if REMEMBERED.exists():
        before = json.loads(REMEMBERED.read_text())
        if before["names"] == names:
            return set(before["struck"]), {tuple(function) for function in before["loosened"]}
    return set(), set()


def remember(names, struck, loosened):
    REMEMBERED.write_text(json.dumps({"names": names, "struck": sorted(struck), "loosened": sorted(loosened)}))


def copy_tree(but):
    """Copies all but the files that mutants go into. It copies what git knows of, and does not touch what is the same, so that little is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    for name in listed.split("\0"):
        if not name or name in but or not (ROOT / name).is_file():
            continue
        if name == "core/src/lib.rs":
            put(TREE / name, (ROOT / name).read_text() + "#[allow(missing_docs)]\npub mod mutants;\n")
        elif name == "sim/src/main.rs":
            put(TREE / name, switched((ROOT / name).read_text()))
        else:
            put(TREE / name, (ROOT / name).read_bytes())
    put(TREE / "core" / "src" / "mutants.rs", (ROOT / "tests" / "mutants" / "switch.rs").read_text())


def switched(main):
    """The simulator's `main`, which turns a mutant on and says at its end whether it was come to."""
    head = "fn main() -> ExitCode {\n"
    assert main.count(head) == 1, "sim/src/main.rs has another main than this expects"
    return main.replace(head, head + """\
    struct Tell;
    impl Drop for Tell {
        fn drop(&mut self) {
            eprintln!("reached {} times", odradek_core::mutants::reached());
        }
    }
    let mutant = std::env::var("ODRADEK_MUTANT").ok();
    odradek_core::mutants::choose(mutant.and_then(|number| number.parse().ok()).unwrap_or(0));
    let _tell = Tell;
""")


def put(path, content):
    content = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if path.suffix in (".rs", ".toml", ".lock"):
        BUILT.unlink(missing_ok=True)


def build(texts, tried):
    """Builds the simulator. Returns the mutants that do not compile, and the functions (path and name)
    that call one with a switch in it, and so can be `const` no more."""
    print("building", file=sys.stderr, flush=True)
    done = subprocess.run(
        [CARGO, "build", "--release", "-p", "odradek-sim", "--target-dir", BUILD, "--message-format", "json"],
        cwd=TREE, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wrong, loose, seen = set(), set(), []
    for line in done.stdout.decode().splitlines():
        message = json.loads(line).get("message")
        if not isinstance(message, dict) or message.get("level") != "error" or not message["spans"]:
            continue
        seen.append(message["rendered"])
        span = next(span for span in message["spans"] if span["is_primary"])
        path = span["file_name"]
        text = texts.get(path) or (ROOT / path).read_text()
        mutants = schemata.mutants_at(text, span["byte_start"], span["byte_end"])
        if "in constant functions" in message["message"]:
            loose.add((path, schemata.function_at(text, span["byte_start"])))
        elif not mutants and re.search("in (constants|statics)", message["message"]):
            called = re.search(r"`(?:.*::)?(\w+)`", message["message"])[1]
            wrong |= {number for number, mutant in tried if function_of(mutant) == called}
        else:
            wrong |= set(mutants)
    if done.returncode != 0 and not wrong and not loose:
        sys.exit("it does not build, and no mutant is to blame:\n" + "\n".join(seen))
    if done.returncode == 0:
        BUILT.touch()
    print(f"{len(wrong)} mutants do not compile, {len(loose)} functions are const no more", file=sys.stderr)
    (SCRATCH / "errors").write_text("\n".join(seen))
    return wrong, loose


def function_of(mutant):
    return (mutant.get("function") or {}).get("function_name", "").rsplit("::", 1)[-1]


def show(sample, number):
    mutant = dict(sample)[number]
    print(mutant["name"])
    text = (TREE / mutant["file"]).read_text()
    at = text.index(f"/*<{number}*/")
    print(text[text.rindex("\n", 0, at) + 1:text.index("\n", text.index(f"/*{number}>*/"))])


# The judges.

def simulator(times):
    # A copy, so that a build meanwhile changes nothing.
    program = SCRATCH / f"odradek-sim-{os.getpid()}"
    shutil.copy2(BUILD / "release" / "odradek-sim", program)
    atexit.register(program.unlink)

    # By workload, what the code as it is hits in each of its pieces: a mark, a fault in a stage, an
    # error code of an API. A campaign that misses such a thing proves nothing, and fails.
    always = {}

    def judge(mutant, number):
        mix = next((mix for start, mix in MIX_OF.items() if mutant["file"].startswith(start)), MIX)
        reached, all_used = 0, 0.0
        for workload, seconds in mix.items():
            seed, used, missed = 0, 0.0, []
            while used < seconds * times:
                seeds = f"{seed}..{seed + PIECE}"
                command = [program, "run", "--jobs", "1", "--seeds", seeds, "--workload", workload]
                ended, took = bounded(command, number)
                all_used += took
                told = re.search(r"reached (\d+) times", ended.stderr)
                reached += int(told[1]) if told else 0
                if ended.returncode != 0:
                    by, at = why(ended, seeds)
                    return verdict("killed", by, workload, at, reached, all_used)
                missed.append(missed_by(ended.stdout))
                seed += PIECE
                used += took
            if number == 0:
                always[workload] = set.union(*missed)
                continue
            # What every piece missed, and no piece of the code as it is.
            lost = sorted(set.intersection(*missed) - always.get(workload, set()))
            if lost and len(missed) > 3 and workload in always:
                return verdict("killed", f"never hit: {lost[0]}", workload, f"0..{seed}", reached, all_used)
        return verdict("survived", "", "", "", reached, all_used)

    return judge


def missed_by(told):
    line = re.search(r"^hit: .*$", told, re.MULTILINE)
    lists = re.findall(r"\(not (.*?)\)(?:;|$)", line[0]) if line else []
    return {item for words in lists for item in words.split(", ")}


def why(ended, seeds):
    """What a process that failed fell over, and the seed."""
    violated = re.search(r"^\d+ seeds violate (\w+): (\d+)", ended.stdout, re.MULTILINE)
    if violated:
        return violated[1], violated[2]
    if ended.returncode == -signal.SIGXCPU or ended.returncode == -signal.SIGKILL:
        return "no end", seeds
    if "panicked" in ended.stderr:
        return "Panic", seeds
    return f"ended with {ended.returncode}", seeds


def tests():
    print("building the tests", file=sys.stderr, flush=True)
    built = subprocess.run(
        [CARGO, "test", "-p", "odradek-core", "--lib", "--no-run", "--target-dir", BUILD, "--message-format", "json"],
        cwd=TREE, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in built.stdout.decode().splitlines()]
    program = next(line["executable"] for line in lines if line.get("executable"))

    def judge(_, number):
        ended, _ = bounded([program, "-q", "--test-threads", "1"], number, cwd=TREE / "core", limit=120)
        failed = re.findall(r"^    (\S+)$", ended.stdout, re.MULTILINE)
        if ended.returncode == 0:
            return verdict("survived", "")
        by = ", ".join(sorted(set(failed))[:3]) or "no end"
        return verdict("killed", by)

    return judge


def bounded(command, number, cwd=ROOT, limit=LIMIT_CPU):
    """Runs a process with a mutant on, within bounds; and the seconds of processor time it took."""
    def bounds():
        os.nice(15)
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [str(word) for word in command], cwd=cwd, preexec_fn=bounds, text=True, errors="replace",
        env=dict(os.environ, ODRADEK_MUTANT=str(number)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=LIMIT_WALL)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return subprocess.CompletedProcess(command, process.returncode, out, err), took


# The table.

def describe(number, mutant):
    place = f"{mutant['file'].removeprefix('core/src/')}:{mutant['span']['start']['line']}"
    what = mutant["name"].split(": ", 1)[1] if ": " in mutant["name"] else mutant["name"]
    return {"number": number, "place": place, "function": function_of(mutant), "mutant": what}


def verdict(word, by, workload="", seed="", reached="", seconds=0.0):
    return {"verdict": word, "by": by, "workload": workload, "seed": seed, "reached": reached,
            "seconds": f"{seconds:.1f}"}


def read_table():
    if not TABLE.exists():
        return {}
    lines = TABLE.read_text().splitlines()[1:]
    rows = [dict(zip(COLUMNS, line.split("\t"))) for line in lines]
    return {int(row["number"]): row for row in rows}


def write_table(rows, sample):
    lines = ["\t".join(COLUMNS)]
    for number, _ in sample:
        if number in rows:
            lines.append("\t".join(str(rows[number][column]) for column in COLUMNS))
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
