"""The Automation API: requests and answers of /api."""
import ast
import json
import re
import urllib.parse

SCALARS = {"StringType": str, "IdType": str, "URIType": str, "BooleanType": bool, "IntegerType": int, "DoubleType": (int, float),
           "DateTimeType": str, "SecretType": str}


class Automation:
    """Checks one exchange of /api."""

    def __init__(self, bindings, findings):
        self.bindings, self.findings = bindings, findings
        self.since = set()  # (release, name) of what came after the first release

    def report(self, rule, place, detail):
        self.findings.add(rule, place, detail)

    def request(self, verb, path, headers, body):
        """Checks a request and gives its operation; None if there is no such."""
        operation, fixed, query = self.find(verb, path)
        if operation is None:
            return self.report("path", f"{verb} {path.split('?')[0]}", "is no operation")
        if operation.since:
            self.since.add((operation.since, str(operation)))
        self.query(operation, query, fixed)
        known = {text.lower() for pair in operation.header.items() for text in pair}
        for header in ("client-token",):
            if header in (name.lower() for name in headers) and header not in known:
                self.report("header", f"{operation}", f"takes no {header}")
        data = json.loads(body) if body else None
        if operation.body:
            self.value(f"{operation}:{operation.body}", data, operation.input[operation.body], operation.module)
        else:
            elsewhere = {*operation.path, *operation.query, *operation.header, *operation.header.values(), *fixed}
            expected = {name: kind for name, kind in operation.input.items() if name not in elsewhere}
            self.members(str(operation), data or {}, expected, operation.module)
        return operation

    def query(self, operation, query, fixed):
        for name in query:
            if name not in fixed and name not in operation.query.values():
                header = next((f"; it is the header {to}" for to, parameter in operation.header.items() if name in (to, parameter)), "")
                self.report("query", f"{operation}?{name}", f"is no query parameter{header}")
        for parameter, name in operation.query.items():
            if name not in query and not optional(operation.input[parameter]):
                self.report("required", f"{operation}?{name}", "is missing")

    def find(self, verb, path):
        """The operation of a path with its query, the parameters that belong to its URL, and all parameters."""
        parsed = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(parsed.query, keep_blank_values=True))
        found = []
        for operation in self.bindings.operations:
            template = urllib.parse.urlsplit("/api" + operation.url)
            pattern = re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(template.path))
            fixed = dict(urllib.parse.parse_qsl(template.query, keep_blank_values=True))
            if operation.verb == verb and re.fullmatch(pattern, parsed.path) and all(
                    name in query if value == "" else query.get(name) == value for name, value in fixed.items()):
                found.append(((len(fixed), -template.path.count("{")), operation, fixed))
        _, operation, fixed = max(found, key=lambda each: each[0], default=(None, None, {}))
        return operation, fixed, query

    def answer(self, operation, status, body):
        if not 200 <= status < 300:
            data = json.loads(body or "null")
            if not isinstance(data, dict) or "error_type" not in data or "messages" not in data:
                self.report("error", str(operation), f"HTTP {status} without error_type and messages")
        elif body:
            self.value(f"{operation}→", json.loads(body), operation.output, operation.module)
        elif operation.output != "type.VoidType()":
            self.report("value", f"{operation}→", f"no body where {operation.output} is declared")

    # -- values ------------------------------------------------------------------------------------------------------
    def value(self, place, value, declared, module):
        call = ast.parse(declared, mode="eval").body
        kind, inner = call.func.attr, [ast.unparse(argument) for argument in call.args]
        if kind == "OptionalType":
            return None if value is None else self.value(place, value, inner[0], module)
        if kind in ("ListType", "SetType"):
            return self.each(place, value, list, inner[0], module)
        if kind == "MapType":
            return self.each(place, value, dict, inner[1], module)
        if kind == "ReferenceType":
            return self.named(place, value, f"{module if inner[0] == '__name__' else ast.literal_eval(inner[0])}:{ast.literal_eval(inner[1])}")
        if kind == "VoidType":
            return self.report("value", place, "an answer where void is declared")
        if kind in SCALARS and (not isinstance(value, SCALARS[kind]) or kind == "IntegerType" and isinstance(value, bool)):
            self.report("value", place, f"{value!r:.60} is no {kind}")
        return None

    def each(self, place, value, container, declared, module):
        if not isinstance(value, container):
            return self.report("value", place, f"must be {'an array' if container is list else 'an object'}")
        for key, item in value.items() if container is dict else enumerate(value):
            self.value(f"{place}[{key}]", item, declared, module)
        return None

    def named(self, place, value, name):
        """A structure or an enumeration of that name."""
        module, short = name.split(":")
        if name in self.bindings.structures:
            if not isinstance(value, dict):
                return self.report("value", place, f"must be an object ({short})")
            for member in value:
                if (name, member) in self.bindings.added:
                    self.since.add((self.bindings.added[name, member], f"{short}.{member}"))
            return self.members(place, value, self.bindings.structures[name], module)
        if not isinstance(value, str):
            return self.report("value", place, f"must be the name of a {short}")
        if self.bindings.enums.get(name) and value not in self.bindings.enums[name]:
            self.report("enum", place, f"{value!r} is no {short}")
        return None

    def members(self, place, data, expected, module):
        for name, value in data.items():
            if name not in expected:
                self.report("unknown", f"{place}.{name}", "no such member")
            else:
                self.value(f"{place}.{name}", value, expected[name], module)
        for name, kind in expected.items():
            if not optional(kind) and name not in data:
                self.report("required", place, f"{name} is missing")


def optional(declared):
    return declared.startswith("type.OptionalType")
