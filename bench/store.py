"""Results as JSON lines, one record a line, in files that are committed: several sittings add up.

A record has a `kind`: `session` (machine, versions, what a page fault costs there), and what a benchmark measures: `run`, one
measured run, and others of its own. docs/reference/ has the fields.
"""

import datetime
import fcntl
import hashlib
import json
import os
import sys


class Store:
    def __init__(self, folder):
        self.folder = folder
        self.sessions = {}
        self.records = []
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if name.endswith(".jsonl"):
                self._load(os.path.join(folder, name))

    def _load(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    self._keep(json.loads(line))
                except (ValueError, KeyError, TypeError):
                    # An interrupted write leaves part of a line; the records around it are whole.
                    print(f"{path}:{number}: not a record, left out", file=sys.stderr)

    def _keep(self, record):
        if record["kind"] == "session":
            self.sessions[record["id"]] = record
        else:
            record["session"], record["when"]  # every other kind has these
            self.records.append(record)

    def add(self, record, name):
        """Keeps a record, and has it on the disk before this returns."""
        line = json.dumps(record, separators=(",", ":"), sort_keys=True)
        self._keep(json.loads(line))
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, name + ".jsonl")
        with open(path, "ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def begin_session(self, name, facts, **more):
        """One a sitting: what the records that follow were measured on. Returns its id.

        Processors of several generations are one machine: a figure is made of ratios, each of two runs on the same one.
        """
        stays = {what: text for what, text in facts.items() if what not in ("Pagewise", "processor")}
        now = datetime.datetime.now()
        session = {
            "kind": "session", "id": now.strftime("%Y%m%dT%H%M%S.%f") + f"-{os.getpid()}", "when": now.astimezone().isoformat(timespec="seconds"),
            "machine_id": hashlib.sha256(json.dumps(stays, sort_keys=True).encode()).hexdigest()[:8], "facts": facts, **more,
        }
        self.add(session, name)
        return session["id"]

    def of_kind(self, kind, **wanted):
        return [record for record in self.records if record["kind"] == kind
                and all(record.get(key) == value for key, value in wanted.items())]

    def setting_of(self, record):
        """What rounds must have in common that one figure is made of: the versions, the kernel, the memory and the number of
        cores. Not whose processors they are: a figure is made of ratios, each of two runs on the same one."""
        facts = self.sessions.get(record["session"], {}).get("facts", {})
        stays = {what: text for what, text in facts.items() if what not in ("Pagewise", "processor", "machine")}
        return json.dumps({**stays, "size": facts.get("machine", "").partition(", ")[2]}, sort_keys=True)

    def machine_of(self, record):
        return self.sessions.get(record["session"], {}).get("machine_id", "unknown")

    def processor_of(self, record):
        return self.sessions.get(record["session"], {}).get("facts", {}).get("processor", "not told")

    def make_of(self, record):
        """Whose processors they are, of any generation."""
        return self.sessions.get(record["session"], {}).get("facts", {}).get("machine", "not told").partition(", ")[0]

    def alike(self, one, other):
        """Measured on the same machine, with a processor of the same generation."""
        return (self.machine_of(one), self.processor_of(one)) == (self.machine_of(other), self.processor_of(other))


def hold(folder):
    """Keeps other sittings away from these records while this process lives; False: one is at work.

    Two at once would slow each other, and write their programs' outputs over one another's.
    """
    os.makedirs(folder, exist_ok=True)
    folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(folder)
        return False
    return True


class OfOneBuild:
    """The records of one build of what is measured. Those of other builds stay in the files, and do not count.

    `build` None: the build that was measured last, for who only reads.
    """

    def __init__(self, folder, build, facts=None):
        self.store, self.facts, self.session = Store(folder), facts, None
        self.build = build or (self.store.records[-1].get("build") if self.store.records else None)

    def records(self):
        return [record for record in self.store.records if record.get("build") == self.build]

    def add(self, kind, **fields):
        """A record and, before the first one, the sitting's."""
        name = datetime.date.today().isoformat()
        self.session = self.session or self.store.begin_session(name, self.facts())
        when = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self.store.add({"kind": kind, "session": self.session, "when": when, "build": self.build, **fields}, name)

    def machines(self):
        """The facts of each machine that these records were measured on."""
        sessions = [self.store.sessions[record["session"]] for record in self.records() if record["session"] in self.store.sessions]
        return list({session["machine_id"]: session["facts"] for session in sessions}.values())
