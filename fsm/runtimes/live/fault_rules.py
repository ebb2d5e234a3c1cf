"""Rules for the calls that a proxy changes: the ``--rules`` file, and its application to each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fsm.errors import InputError, Problem, contents, documented
from fsm.language.fault_file import WrittenFault, WrittenFaults
from fsm.language.read import File, parse
from fsm.language.read.toml import LARGEST


@dataclass(slots=True, kw_only=True)
class _Rule:
    written: WrittenFault
    chance: Random
    met: int = 0

    def concerns(self, method: str) -> bool:
        wanted = self.written.method
        return wanted in {"*", method, method.rpartition("/")[2]}

    def strikes(self, identity: str) -> bool:
        """Check whether the rule applies to this call of its method.  Every call whose id matches is counted."""
        rule = self.written
        if rule.id is not None and not identity.startswith(rule.id):
            return False
        self.met += 1
        if rule.nth is not None:
            return self.met == rule.nth
        if rule.every is not None:
            return self.met % rule.every == 0
        return rule.probability is None or self.chance.random() < rule.probability


@dataclass(slots=True, kw_only=True)
class FaultRules:
    """The rules of one file, each with the number of calls that it has matched."""

    rules: list[_Rule] = field(default_factory=list)

    def concern(self, method: str) -> bool:
        """Check whether a call of this method may be changed."""
        return any(each.concerns(method) for each in self.rules)

    def of(self, method: str, identity: str) -> WrittenFault | None:
        """Return the first fault that applies to this call on *identity*.  Every matching rule counts the call."""
        struck = [each.written for each in self.rules if each.concerns(method) and each.strikes(identity)]
        return struck[0] if struck else None


def read_rules(path: str | Path) -> FaultRules:
    """Read the rules in the file at *path*.  Raise :class:`InputError` with all errors in it and their lines."""
    hint = f"give the path of a file of faults, see {documented('how-to/proxy')}"
    file = parse(contents(path, most=LARGEST, code="FSM605", hint=hint), WrittenFaults, path=str(path))
    if problems := [each for index in range(len(file.written.fault)) for each in _problems(file, index)]:
        raise InputError(problems)
    return FaultRules(rules=[_Rule(written=one, chance=Random(one.seed)) for one in file.written.fault])  # noqa: S311


def _problems(file: File[WrittenFaults], index: int) -> list[Problem]:
    """Return the errors of one fault: keys that contradict other keys or have no effect beside them."""
    rule = file.written.fault[index]
    given = rule.model_fields_set
    choices = sorted({"nth", "every", "probability"} & given)
    found = [(word, f"'{word}' beside '{choices[0]}'", "say one of nth, every, probability") for word in choices[1:]]
    unused = {
        "delay": {"code", "message"},
        "lose-reply": {"code", "message", "when", "milliseconds"},
        "fail": {"milliseconds"},
        "cancel": {"code", "message", "when"},
    }
    if rule.do == "delay" and not rule.milliseconds:
        found.append(("do", "a delay without milliseconds", "add: milliseconds = 500"))
    found += [
        (word, f"'{word}' means nothing where do = '{rule.do}'", "remove it")
        for word in sorted(unused[rule.do] & given)
    ]
    if "seed" in given and "probability" not in given:
        found.append(("seed", "'seed' without 'probability'", "add: probability = 0.1, or remove it"))
    return [
        Problem(path=file.path, line=file.lines.find("fault", index, word), code="FSM605", what=what, hint=hint)
        for word, what, hint in found
    ]
