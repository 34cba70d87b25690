"""The page's rule 5: the table is what the host program gives, push by push, and captures are those of its stages."""

import itertools
import json
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from . import rules
from .expressions import parse, value
from .refused import need, refuse

Data = dict[str, Any]
INIT, RESET = "init", "reset"


@dataclass(slots=True)
class Session:
    """What a session is: counters, region lengths, the used part of the horizon, and the forms of its leaves."""

    counters: dict[str, int]
    lengths: dict[str, int]
    elapsed: Fraction
    forms: list[int]
    ran: list[int] = field(default_factory=list)


def check(plan: Data) -> None:
    Checker(plan).check()


class PastHorizon(Exception):
    """A push would go past the horizon."""


class Checker:
    """Goes through every push of every node."""

    def __init__(self, plan: Data) -> None:
        self.plan, self.program = plan, plan["program"]
        self.row: Data | None = None
        self.captures, self.nodes, self.leaves = plan["captures"], plan["nodes"], plan["leaves"]
        self.params = dict(self.program["params"])
        self.rates = {clock["name"]: Fraction(clock["rate_hz"]) for clock in self.program["clocks"]}
        self.stages = {stage["name"]: stage for stage in self.program["stages"]}
        self.regions = {region["name"]: region for region in self.program["regions"]}
        self.queues = {queue["name"]: queue for queue in self.program["queues"]}
        self.starts = {counter["name"]: counter["start"] for counter in self.program["counters"]}

    def check(self) -> None:
        self.check_names()
        self.check_choices()
        need(bool(self.nodes), "node 0 is there")
        need(self.plan["init"] < len(self.captures), "the init capture is there")
        init = self.captures[self.plan["init"]]
        need(init["key"]["stage"] == INIT and not init["key"]["state"], "init makes the state of node 0")
        first = self.session(self.nodes[0])
        need((first.counters, first.lengths, first.elapsed) == (self.starts, self.start_lengths(), 0), "node 0")
        need(sorted(init["writes"]) == [list(pair) for pair in enumerate(first.forms)], "the forms that init makes")
        rows = {}
        for row in self.plan["transitions"]:
            name = row["source"], row["event"], tuple(row["choices"])
            need(name not in rows, "a row twice")
            rows[name] = row
        for number, node in enumerate(self.nodes):
            self.check_forms(node)
            for event, choices in self.possible(node):
                self.row = rows.get((number, event, tuple(choices)))
                after = self.push(node, event, choices)
                if after is not None:
                    self.check_row(rows.pop((number, event, tuple(choices)), None), after)
        need(not rows, "rows that cannot happen")

    def check_names(self) -> None:
        for part in ("queues", "events"):
            rules.unique([each["name"] for each in self.program[part]], part)
        rules.unique(["init", "reset", *(each["name"] for each in self.program["stages"])], "stages")
        parts = [each["name"] for part in ("clocks", "counters", "regions") for each in self.program[part]]
        values = [name for name, _ in self.program["params"]] + parts
        rules.unique(values, "values")
        for stage in self.program["stages"]:
            rules.unique([each["name"] for each in stage["inputs"]], "inputs")
            for part in ("outputs", "reads", "writes", "indexed"):
                rules.unique(stage[part], part)
        for event in self.program["events"]:
            own = [each["name"] for each in event["choices"]] + [name for name, _ in event["lets"]]
            rules.unique(own + values, "values")
            rules.unique([each["name"] for each in event["inputs"]], "inputs")
            rules.unique(event["run"], "stages that run")
        self.check_values()

    def check_choices(self) -> None:
        """Check that all pushes can be gone through."""
        external = [event for event in self.program["events"] if not event["internal"]]
        counts = [math.prod(max(0, each["upper"] - each["lower"]) for each in event["choices"]) for event in external]
        need(all(count <= 1_000_000 for count in counts), "at most a million choices of an event")
        need(sum(counts) * len(self.nodes) <= 2_000_000, "at most two million pushes")

    def check_values(self) -> None:
        """Check what is named and what it starts with."""
        need(all(rate > 0 for rate in self.rates.values()), "clocks go forward")
        for region in self.program["regions"]:
            need(region["clock"] is None or region["clock"] in self.rates, "a clock that is there")
        for queue in self.program["queues"]:
            need(self.starts.get(queue["counter"]) == len(queue["start"]), "a counter counts the rows")
            need(queue["axis"] <= 63, "an axis of a tensor")
        dtypes = {each["name"] for stage in self.program["stages"] for each in stage["inputs"] if each["dtype"]}
        for event in self.program["events"]:
            for each in event["inputs"]:
                if each["literal"] is None:
                    need(each["name"] in dtypes | set(self.queues), "a stage or queue takes it")
                else:
                    need(each["name"] not in self.queues, "a queue takes rows")
            need(not (event["internal"] and event["choices"]), "nobody chooses for an internal event")

    def start_lengths(self) -> dict[str, int]:
        return {name: region["start"] for name, region in self.regions.items()}

    def session(self, node: Data) -> Session:
        counters = dict(zip(self.starts, node["counters"], strict=True))
        lengths = dict(zip(self.regions, node["lengths"], strict=True))
        return Session(counters, lengths, Fraction(*node["elapsed"]), list(node["forms"]))

    def check_row(self, row: Data | None, after: Session) -> None:
        if row is None:
            refuse("a push without a row")
        target = self.session(self.nodes[row["target"]])
        need(row["captures"] == after.ran, "the captures of a row")
        need((target.counters, target.lengths) == (after.counters, after.lengths), "the target of a row")
        need((target.elapsed, target.forms) == (after.elapsed, after.forms), "the target of a row")

    # Forms.

    def check_forms(self, node: Data) -> None:
        """Check that the forms of a node follow from its counters and lengths."""
        here = self.session(node)
        for leaf, number in zip(self.leaves, node["forms"], strict=True):
            form, owner = self.plan["forms"][number], leaf["owner"]
            if owner in self.starts and not rules.is_tensor(form):
                need(form == {"kind": "int", "text": str(here.counters[owner])}, "a leaf holds its counter")
                continue
            need(owner in self.regions, "a leaf has an owner")
            region, length = self.regions[owner], here.lengths[owner]
            if length < 0:
                need(form == {"kind": "none", "text": ""}, "an absent leaf is none")
                continue
            need(rules.is_tensor(form) and form["dtype"] == region["dtype"], "the dtype of its region")
            shape = [length if size is None else size for size in region["shape"]]
            is_row = any(owner in stage["indexed"] for stage in self.program["stages"])
            need(form["sizes"] == shape[is_row:], "the sizes of its region")

    # Pushes.

    def possible(self, node: Data) -> list[tuple[int, list[int]]]:
        """Return the external events whose guard holds, with every value of their choices."""
        found = []
        for number, event in enumerate(self.program["events"]):
            if not event["internal"]:
                ranges = [range(each["lower"], each["upper"]) for each in event["choices"]]
                for choices in itertools.product(*ranges):
                    if self.holds(event, self.session(node), list(choices)):
                        found.append((number, list(choices)))
        return found

    def names(self, event: Data, session: Session, choices: list[int]) -> dict[str, int]:
        chosen = dict(zip([each["name"] for each in event["choices"]], choices, strict=True))
        return self.params | session.counters | chosen

    def holds(self, event: Data, session: Session, choices: list[int]) -> bool:
        return event["when"] is None or value(parse(event["when"]), self.names(event, session, choices)) != 0

    def push(self, node: Data, number: int, choices: list[int]) -> Session | None:
        """Return the session once it has settled, or None where it would go past the horizon."""
        session = self.session(node)
        try:
            self.happen(self.program["events"][number], session, choices)
            for _ in range(1000):
                internal = [each for each in self.program["events"] if each["internal"]]
                enabled = [each for each in internal if self.holds(each, session, [])]
                need(len(enabled) < 2, "two internal events at once")
                if not enabled:
                    return session
                self.happen(enabled[0], session, [])
        except PastHorizon:
            return None
        refuse("internal events without end")

    def happen(self, event: Data, session: Session, choices: list[int]) -> None:
        names = self.names(event, session, choices)
        for name, text in event["lets"]:
            names[name] = value(parse(text), names)
        clock, ticks = None, 0
        if event["advance"]:
            clock, ticks = event["advance"][0], value(parse(event["advance"][1]), names)
            need(clock in self.rates and ticks >= 0, "a clock goes forward")
        self.spend(event, session, clock, ticks)
        given = {each["name"]: self.given(each, names) for each in event["inputs"]}
        rows = self.arrive(event, session, given)
        made: dict[str, Any] = {}
        need(set(event["run"]) <= set(self.stages), "stages that are there")
        for name in event["run"]:
            self.run(self.stages[name], session, names, given, made, (clock, ticks))
        for region in {region for name in event["run"] for region in self.stages[name]["writes"]}:
            moved = self.advanced(self.regions[region], session.lengths[region], (clock, ticks))
            session.lengths[region] = moved
        self.settle(event, session, names, rows)

    def spend(self, event: Data, session: Session, clock: str | None, ticks: int) -> None:
        horizon = self.program["horizon"]
        only_resets = event["reset"] and not event["run"] and not event["advance"]
        if horizon is None or only_resets:
            return
        if horizon["unit"] == "events":
            session.elapsed += not event["internal"]
        elif clock is not None:
            session.elapsed += ticks / self.rates[clock]
        if session.elapsed > Fraction(horizon["limit"]):
            raise PastHorizon

    def given(self, each: Data, names: dict[str, int]) -> Any:
        """Return the sizes of an event's input, or its literal as a form."""
        if each["literal"] is not None:
            return literal(each["literal"])
        sizes = [value(parse(size), names) for size in each["shape"]]
        need(all(size >= 0 for size in sizes), "sizes are 0 or more")
        return sizes

    def arrive(self, event: Data, session: Session, given: dict[str, Any]) -> dict[str, int]:
        """Return the rows of each queue's counter once those that an event from outside brings have joined."""
        rows = {}
        for name, queue in self.queues.items():
            there = session.counters[queue["counter"]]
            if name in given:
                size = given[name][queue["axis"]]
                if not event["internal"]:
                    there += size
                need(size <= there, "no more rows than a queue holds")
            rows[queue["counter"]] = there
        return rows

    def settle(self, event: Data, session: Session, names: dict[str, int], rows: dict[str, int]) -> None:
        """Store effects, then restart regions, then reset."""
        values = {name: value(parse(text), names) for name, text in event["effects"]}
        need(set(values) <= set(self.starts), "counters that are there")
        session.counters |= values
        if event["reset"]:
            self.reset(session)
        else:
            for counter, there in rows.items():
                need(0 <= session.counters[counter] <= there, "a queue holds as many rows as its counter says")
            for region in event["restart"]:
                session.lengths[region] = self.regions[region]["start"]

    def reset(self, session: Session) -> None:
        session.counters, session.lengths, session.elapsed = dict(self.starts), self.start_lengths(), Fraction(0)
        if self.row is not None:
            number = self.take_capture(session)
            capture = self.captures[number]
            need(capture["key"]["stage"] in (RESET, INIT) and self.finds(capture, session), "the model's reset")
            self.apply(number, session)

    # Stages.

    def run(
        self,
        stage: Data,
        session: Session,
        names: dict[str, int],
        given: dict[str, Any],
        made: dict[str, Any],
        advance: tuple[str | None, int],
    ) -> None:
        name, count = stage["repeat"] or (None, 1)
        for index in range(count):
            args = [self.arg(each, names, advance) for each in stage["args"]] + ([index] if name else [])
            if self.row is not None:
                number = self.take_capture(session)
                self.check_capture(number, stage, args, index if name else None, session, given, made)
                self.apply(number, session)
                made |= self.outputs(stage, number)

    def arg(self, name: str, names: dict[str, int], advance: tuple[str | None, int]) -> int:
        if name in self.rates:
            return self.ticks(name, advance)
        need(name in names, "an arg has a value")
        return names[name]

    def ticks(self, clock: str, advance: tuple[str | None, int]) -> int:
        moved, ticks = advance
        if moved is None:
            return 0
        exact = ticks * self.rates[clock] / self.rates[moved]
        need(exact.denominator == 1, "whole ticks")
        return int(exact)

    def advanced(self, region: Data, length: int, advance: tuple[str | None, int]) -> int:
        kind, cap = region["retention"]["kind"], region["retention"]["cap"]
        if region["axis"] is None:
            return 1
        if kind in ("fixed", "ring"):
            return int(region["start"] if cap is None else cap)
        grown = max(length, 0) + (self.ticks(region["clock"], advance) if region["clock"] else 0)
        return grown if kind == "grow" else min(cap, grown)

    def take_capture(self, session: Session) -> int:
        """Return the next capture of the row."""
        need(self.row is not None and len(session.ran) < len(self.row["captures"]), "a row with all captures")
        return int(self.row["captures"][len(session.ran)])  # type: ignore[index]

    def check_capture(
        self,
        number: int,
        stage: Data,
        args: list[int],
        index: int | None,
        session: Session,
        given: dict[str, Any],
        made: dict[str, Any],
    ) -> None:
        """Check that a capture is of a stage, and was made for what is there."""
        capture = self.captures[number]
        key = capture["key"]
        need(key["stage"] == stage["name"] and key["args"] == args, f"a capture of {stage['name']}")
        need(len(key["inputs"]) == len(stage["inputs"]), "the inputs of its stage")
        for each, form in zip(stage["inputs"], key["inputs"], strict=True):
            need(self.takes(each, form, given, made), "the inputs that are there")
        need(self.finds(capture, session), "the forms that are there")
        counters = {each["name"] for each in self.program["counters"] if each["leaf"]}
        for leaf, _ in capture["writes"]:
            need(self.leaves[leaf]["owner"] in counters | set(stage["writes"]), "a leaf that its stage writes")
        for leaf, _ in key["state"] + capture["writes"]:
            row = self.leaves[leaf]["path"].endswith(f"[{index}]")
            need(self.leaves[leaf]["owner"] not in stage["indexed"] or row, "the row of its index")

    def finds(self, capture: Data, session: Session) -> bool:
        return all(session.forms[leaf] == form for leaf, form in capture["key"]["state"])

    def apply(self, number: int, session: Session) -> None:
        for leaf, form in self.captures[number]["writes"]:
            session.forms[leaf] = form
        session.ran.append(number)

    def takes(self, stage_input: Data, form: Data, given: dict[str, Any], made: dict[str, Any]) -> bool:
        """Return whether a capture's input has the form of what an event gives or an earlier stage has made."""
        name = stage_input["name"]
        if rules.is_tensor(form) and form["dtype"] != stage_input["dtype"]:
            return False
        if name not in given:
            need(name in made and name not in self.queues, "an input comes from somewhere")
            parts = ("dtype", "sizes", "strides") if rules.is_tensor(form) else ("kind", "text")
            return all(form[part] == made[name].get(part) for part in parts)
        if isinstance(given[name], dict):
            return bool(form == given[name])
        return rules.is_tensor(form) and form["sizes"] == given[name]

    def outputs(self, stage: Data, number: int) -> dict[str, Any]:
        forms = self.captures[number]["outputs"]
        need(len(forms) == len(stage["outputs"]), "the outputs of its stage")
        return dict(zip(stage["outputs"], forms, strict=True))


def literal(scalar: Any) -> Data:
    """Return the form of a literal input."""
    kind = {bool: "bool", int: "int", str: "str"}[type(scalar)]
    return {"kind": kind, "text": scalar if kind == "str" else json.dumps(scalar)}
