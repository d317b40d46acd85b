"""What both wires of the VIM API have in common: scalars, references, substitution, properties."""
import re

from tables import PRIMITIVES

INTEGERS = {"byte": 8, "short": 16, "int": 32, "long": 64}
SCALARS = (*INTEGERS, "string", "boolean", "dateTime", "float", "double", "base64Binary", "anyURI")
TIME = re.compile(r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")
ARRAYS = {"String": "string", "Int": "int", "Long": "long", "Short": "short", "Byte": "byte", "Boolean": "boolean", "Double": "double",
          "AnyType": "anyType", "AnyURI": "vmodl.URI", "ManagedObjectReference": "vmodl.ManagedObject", "DateTime": "vmodl.DateTime"}

# The types that carry values of properties, each with the member that lists them.
PROPERTIES = {"ObjectUpdate": "changeSet", "ObjectContent": "propSet"}


def is_integer(value, kind):
    half = 1 << (INTEGERS[kind] - 1)
    return -half <= value < half


class Vim:
    """Checks one message; its findings are in `findings`."""

    def __init__(self, tables, findings, knows=lambda version: True):
        """`knows` says whether the release that is spoken has what came with a version of the tables."""
        self.tables, self.findings, self.knows = tables, findings, knows

    def report(self, rule, place, detail):
        self.findings.add(rule, place, detail)

    def resolve(self, place, name, declared, attribute):
        """The type that a value names itself, or the declared one; None if it may not stand there."""
        if name is None:
            return declared
        actual = self.tables.by_wsdl.get(name)
        if actual is None:
            self.report(attribute, place, f"there is no type {name}")
        elif not self.tables.is_a(actual, declared):
            self.report(attribute, place, f"{name} where {declared.wsdl} is declared")
            return None
        else:
            self.findings.use(actual.version, place, actual.wsdl)
        return actual

    def element_of(self, place, name, attribute):
        """What an array such as ArrayOfHostSystem holds, by its name in the tables."""
        inner = name.removeprefix("ArrayOf")
        held = self.tables.by_wsdl.get(inner)
        if inner not in ARRAYS and held is None:
            self.report(attribute, place, f"there is no type {name}")
            return None
        return ARRAYS.get(inner) or held.vmodl

    def enum(self, place, value, declared):
        if value not in declared.values:
            self.report("enum", place, f"{value!r} is no {declared.wsdl}")

    def reference(self, place, kind, moid, declared):
        actual = self.tables.by_wsdl.get(kind or "")
        if actual is None or actual.kind != "managed":
            self.report("reference", place, f"{kind!r} is no managed type")
        elif not self.tables.is_a(actual, declared):
            self.report("reference", place, f"{kind} where {declared.wsdl} is declared")
        if not (moid or "").strip():
            self.report("reference", place, "has no id")

    def property_value(self, place, managed, path, named):
        """Checks the type by which the value of a property is sent; an element of an array is not looked at."""
        met, wrong = self.tables.property(managed, path)
        if wrong:
            return self.report("property", f"{place} {managed}.{path}", wrong)
        field, kind = met[-1], self.tables.by_vmodl.get(met[-1].type)
        if "[" in path or field.type == "anyType":
            return None
        if field.list and kind is not None and kind.kind == "managed":
            expected = "ArrayOfManagedObjectReference"
        elif field.list:
            # Names of types, methods and properties are strings on the wire.
            held = "string" if PRIMITIVES.get(field.type) == "string" else field.type
            expected = "ArrayOf" + next((name for name, inner in ARRAYS.items() if inner == held), kind and kind.wsdl or held)
        elif kind is None:
            expected = PRIMITIVES[field.type]
        elif kind.kind == "managed":
            expected = "ManagedObjectReference"
        else:
            return self.substituted(f"{place} {managed}.{path}", named, kind)
        if named != expected and {named, expected} != {"binary", "base64Binary"}:
            self.report("property", f"{place} {managed}.{path}", f"{named} instead of {expected}")
        return None

    def substituted(self, place, named, declared):
        actual = self.tables.by_wsdl.get(named)
        if actual is None or not self.tables.is_a(actual, self.wrapped(declared)):
            self.report("property", place, f"{named} instead of {self.wrapped(declared).wsdl}")

    def wrapped(self, declared):
        """The type by which a declared one travels."""
        return declared

    def property_paths(self, place, kind, paths, traverses=False):
        for path in paths:
            met, wrong = self.tables.property(kind, path)
            if wrong:
                self.report("property", f"{place} {kind}.{path}", wrong)
                continue
            for field in met:
                self.findings.use(field.version, f"{place} {kind}.{path}", field.name)
            target = self.tables.by_vmodl.get(met[-1].type)
            if traverses and (target is None or target.kind != "managed"):
                self.report("property", f"{place} {kind}.{path}", "leads to no managed object")
