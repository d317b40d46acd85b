"""VI/JSON: requests and answers of /sdk/vim25/{release}/…"""
import json
import urllib.parse

from tables import PRIMITIVES
from vim import INTEGERS, PROPERTIES, SCALARS, TIME, Vim, is_integer

# The parts of a path that name another service than VIM's own.
SERVICES = ("pbm", "sms", "vslm", "eam", "vsan")


class Call:
    """What a request asks for: a method, or a property where `method` is None."""

    def __init__(self, name, type, list, method):
        self.name, self.type, self.list, self.method = name, type, list, method


class ViJson(Vim):
    """Checks one exchange of VI/JSON."""

    def request(self, verb, path, body):
        """Checks a request and gives its Call; None if it can be none."""
        parts = [urllib.parse.unquote(part) for part in path.split("?")[0].split("/")[4:]]
        if parts[0] in SERVICES:
            parts.pop(0)
        if len(parts) != 3 or parts[0] not in self.tables.by_wsdl:
            return self.report("path", path, "is not a managed type, an id and a name")
        managed, _, name = parts
        if verb == "GET":
            return self.property_read(managed, name, path)
        method = self.tables.method(managed, name)
        if method is None:
            return self.report("method", f"{managed}/{name}", f"{managed} has no method {name}")
        self.findings.use(method.version, name, name)
        if body:
            self.parameters(name, json.loads(body), method)
        elif any(not parameter.optional for parameter in method.params):
            self.report("body", name, "is missing")
        return Call(name, method.result, method.list, method)

    def property_read(self, managed, name, path):
        met, wrong = self.tables.property(managed, name)
        if wrong or len(met) != 1:
            return self.report("path", path, wrong or "names no top-level property")
        self.findings.use(met[0].version, f"{managed}.{name}", name)
        return Call(f"{managed}.{name}", met[0].type, met[0].list, None)

    def parameters(self, name, data, method):
        named = data.pop("_typeName", None) if isinstance(data, dict) else None
        expected = name.removesuffix("_Task") + "RequestType"
        if named not in (None, expected):
            self.report("_typeName", name, f"{named} instead of {expected}")
        self.members(name, data, method.params)
        self.filters(name, data)

    def answer(self, status, body, call):
        """Checks the answer to a call."""
        if status == 500:
            return self.fault(call.name, json.loads(body))
        if not 200 <= status < 300:
            return self.report("status", call.name, f"HTTP {status}")
        if call.type == "void" or not body:
            if body or status != 204:
                self.report("status", call.name, f"HTTP {status} with {len(body)} bytes instead of 204 with none")
            return None
        data = json.loads(body)
        return self.values(f"{call.name}→", data, call.type) if call.list else self.value(f"{call.name}→", data, call.type)

    def fault(self, place, data):
        kind = self.tables.by_wsdl.get(data.get("_typeName", ""))
        if kind is None or not self.tables.is_a(kind, self.tables.by_vmodl["vmodl.MethodFault"]):
            return self.report("fault", place, f"{data.get('_typeName')!r} is no fault")
        return self.members(f"{place}!{kind.wsdl}", data, self.tables.fields(kind))

    # -- values ------------------------------------------------------------------------------------------------------
    def members(self, place, data, fields):
        if not isinstance(data, dict):
            return self.report("value", place, "must be an object")
        known = {field.name: field for field in fields}
        for name, value in data.items():
            # The text of a fault is in none of the tables.
            if name != "_typeName" and not (name == "faultstring" and "faultCause" in known):
                self.member(f"{place}.{name}", value, known.get(name))
        for field in fields:
            if not field.optional and data.get(field.name) is None:
                self.report("required", place, f"{field.name} is missing")
        return None

    def member(self, place, value, field):
        if field is None:
            return self.report("unknown", place, "no such member")
        self.findings.use(field.version, place, field.name)
        if value is None:
            return None if field.optional else self.report("required", place, "is null")
        return self.values(place, value, field.type) if field.list else self.value(place, value, field.type)

    def values(self, place, value, declared):
        if not isinstance(value, list):
            return self.report("value", place, "must be an array")
        for i, each in enumerate(value):
            self.value(f"{place}[{i}]", each, declared)
        return None

    def value(self, place, value, declared):
        if declared == "anyType":
            return self.anything(place, value)
        if declared in PRIMITIVES:
            return self.scalar(place, value, PRIMITIVES[declared])
        kind = self.tables.by_vmodl.get(declared)
        if kind is None:
            return self.report("tables", place, f"declare no {declared}")
        if kind.kind == "enum":
            return self.enum(place, value, kind)
        return self.object(place, value, kind)

    def object(self, place, value, kind):
        if not isinstance(value, dict):
            return self.report("value", place, f"must be an object ({kind.wsdl})")
        named = value.get("_typeName")
        if named is None:
            self.report("_typeName", place, f"missing on a {kind.wsdl}")
        if kind.kind == "managed":
            if named not in ("ManagedObjectReference", None) or set(value) - {"_typeName", "type", "value"}:
                self.report("reference", place, f"is no ManagedObjectReference: {value!r:.80}")
            return self.reference(place, value.get("type"), value.get("value"), kind)
        actual = self.resolve(place, named, kind, "_typeName")
        if actual is None:
            return None
        if actual.wsdl in PROPERTIES:
            self.properties(place, value, PROPERTIES[actual.wsdl])
        return self.members(place, value, self.tables.fields(actual))

    def properties(self, place, data, member):
        for each in data.get(member) or ():
            if each.get("val") is not None:
                self.property_value(place, data["obj"].get("type"), each.get("name"), each["val"].get("_typeName"))

    def anything(self, place, value):
        if not isinstance(value, dict) or "_typeName" not in value:
            return self.report("_typeName", place, f"missing where Any is declared: {value!r:.60}")
        named = value["_typeName"]
        if "_value" in value:
            return self.boxed(place, value, named)
        if named == "ManagedObjectReference":
            return self.object(place, value, self.tables.by_vmodl["vmodl.ManagedObject"])
        kind = self.tables.by_wsdl.get(named)
        if kind is None or kind.kind != "data":
            return self.report("_typeName", place, f"{named} is no data type")
        self.findings.use(kind.version, place, kind.wsdl)
        return self.members(place, value, self.tables.fields(kind))

    def boxed(self, place, value, named):
        inner = value["_value"]
        if set(value) - {"_typeName", "_value"}:
            self.report("box", place, "has other members")
        if named.startswith("ArrayOf"):
            held = self.element_of(place, named, "_typeName")
            return self.values(place, inner, held) if held else None
        if named in SCALARS or named == "binary":
            return self.scalar(place, inner, named)
        kind = self.tables.by_wsdl.get(named)
        if kind is not None and kind.kind == "enum":
            return self.enum(place, inner, kind)
        return self.report("box", place, f"a {named} must not be boxed")

    def scalar(self, place, value, kind):
        if kind in INTEGERS:
            right = isinstance(value, int) and not isinstance(value, bool) and is_integer(value, kind)
        elif kind == "boolean":
            right = isinstance(value, bool)
        elif kind in ("float", "double"):
            right = isinstance(value, (int, float)) and not isinstance(value, bool)
        else:
            right = isinstance(value, str) and (kind != "dateTime" or TIME.fullmatch(value))
        if not right:
            self.report("value", place, f"{value!r:.80} is no {kind}")

    # -- the property collector --------------------------------------------------------------------------------------
    def filters(self, place, data):
        if isinstance(data, list):
            for each in data:
                self.filters(place, each)
        elif isinstance(data, dict):
            if data.get("_typeName") == "PropertySpec":
                self.property_paths(place, data.get("type"), data.get("pathSet", []))
            if data.get("_typeName") == "TraversalSpec":
                self.property_paths(place, data.get("type"), [data.get("path")], True)
            for each in data.values():
                self.filters(place, each)
