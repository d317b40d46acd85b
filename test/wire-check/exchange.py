"""Checks one exchange, on whatever wire it is, and says what of the APIs it takes for granted."""
import json
import re

from automation import Automation
from findings import Findings
from soap import Soap
from tables import ALWAYS
from vijson import ViJson

# The first release of each surface that the project speaks. A later addition needs a line in gates.txt.
OLDEST = {"soap vim25": "7.0.0.0", "soap pbm": "7.0.0.0", "vijson vim25": "8.0.1.0", "vijson pbm": "8.0.3.0", "api": "7.0.2.0"}


class Outcome:
    """What came of one exchange: the wire, the call, findings about request and answer, and what of the API it needs."""

    def __init__(self, wire, call, request, answer, late):
        self.wire, self.call, self.request, self.answer, self.late = wire, call, request, answer, late


class Checker:
    """Checks exchanges against the tables and the bindings."""

    def __init__(self, tables, bindings):
        self.tables, self.bindings = tables, bindings

    def check(self, exchange):
        """The Outcome of an exchange; None where it is described nowhere (/rest, hello)."""
        path = exchange["path"]
        if path in ("/sdk", "/pbm"):
            return self.soap(exchange)
        if path.startswith("/sdk/vim25/"):
            return self.vijson(exchange)
        if path.startswith("/api/") and not path.startswith("/api/vcenter/system?action=hello"):
            return self.api(exchange)
        return None

    def soap(self, exchange):
        request, answer = Findings(), Findings()
        name, method = Soap(self.tables, request, exchange["path"]).request(exchange["request"])
        action = exchange["headers"].get("SOAPAction", "")
        spoken = dict(re.findall(r"urn:(\w+)/([\w.]+)", action))
        if from_vcenter(exchange, "<?xml"):
            answering = Soap(self.tables, answer, exchange["path"], lambda version: self.knows(spoken, version))
            if method:
                answering.answer(exchange["answer"], exchange["status"], method)
            elif name == "Fetch":
                answering.fetched(exchange["request"], exchange["answer"], exchange["status"])
        late = self.gate("soap", request, answer, lambda space: spoken.get(space))
        return Outcome("soap", name, request.list, answer.list, late)

    def knows(self, spoken, version):
        """Whether a server has what came with a version when these releases are spoken; without a release it is the oldest."""
        space, _ = self.tables.since(version)
        return self.tables.knows(space, spoken.get(space, "2.0"), version) or version == ALWAYS

    def vijson(self, exchange):
        request, answer = Findings(), Findings()
        call = ViJson(self.tables, request).request(exchange["method"], exchange["path"], exchange["request"])
        if call and from_vcenter(exchange, "{", "[", '"', *"0123456789tfn"):
            ViJson(self.tables, answer).answer(exchange["status"], exchange["answer"], call)
        release, service = exchange["path"].split("/")[3:5]
        if service == "pbm" and number(release) < number(OLDEST["vijson pbm"]):
            request.add("too-new", "pbm", f"came to VI/JSON with {OLDEST['vijson pbm']}, spoken is {release}")
        late = self.gate("vijson", request, answer, lambda _: release)
        return Outcome("vijson", call.name if call else exchange["path"], request.list, answer.list, late)

    def gate(self, wire, request, answer, spoken):
        """Reports what the spoken release does not know; gives what came after the oldest: (surface, release, place, name)."""
        late = set()
        for version, place, name in request.used:
            space, release = self.tables.since(version)
            at = spoken(space)
            if at and not self.tables.knows(space, at, version):
                request.add("too-new", place, f"{name} came with {space} {release}, spoken is {at}")
            if not self.tables.knows(space, OLDEST[f"{wire} {space}"], version):
                late.add((f"{wire} {space}", release, place, name))
        for version, place, name in answer.used:
            space, release = self.tables.since(version)
            at = spoken(space)
            if at and not self.tables.knows(space, at, version):
                answer.add("too-new", place, f"{name} came with {space} {release}, spoken is {at}")
        return late

    def api(self, exchange):
        request, answer = Findings(), Findings()
        asking = Automation(self.bindings, request)
        operation = asking.request(exchange["method"], exchange["path"], exchange["headers"], exchange["request"])
        if operation and from_vcenter(exchange, "{", "[", '"'):
            Automation(self.bindings, answer).answer(operation, exchange["status"], exchange["answer"])
        late = {("api", release, name, name) for release, name in asking.since if number(release) > number(OLDEST["api"])}
        return Outcome("api", str(operation or exchange["path"]), request.list, answer.list, late)


def from_vcenter(exchange, *beginnings):
    """Whether the answer is vCenter's own: not cut off, and not the page of a proxy that a test put in front of it."""
    answer = exchange["answer"]
    return exchange["status"] not in (0, 502, 503) and (not answer or answer.startswith(beginnings))


def number(release):
    return [int(part) for part in release.split(".")] if re.fullmatch(r"[\d.]+", release) else [99]


def read(files):
    """The exchanges of recorded files."""
    for file in files:
        with open(file, encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines)
