"""The types of the VIM and PBM APIs, as Broadcom's generator wrote them into pyVmomi.

Nothing of pyVmomi is imported or copied: its generated modules consist of calls that declare types, and these calls are
recorded from the files where pip put them.
"""
import collections
import os
import re

LINK, OPTIONAL = 2, 4
Field = collections.namedtuple("Field", "name type list optional version space")
Method = collections.namedtuple("Method", "name version params result list privilege faults")

# What the tables call a scalar, and its name in an XML Schema.
PRIMITIVES = {
    "string": "string", "boolean": "boolean", "byte": "byte", "short": "short", "int": "int", "long": "long",
    "float": "float", "double": "double", "vmodl.DateTime": "dateTime", "vmodl.Binary": "base64Binary", "binary": "base64Binary",
    "vmodl.URI": "anyURI", "anyType": "anyType", "vmodl.PropertyPath": "string", "vmodl.MethodName": "string",
    "vmodl.TypeName": "string",
}
ALWAYS = "vmodl.version.version0"


def space_of(vmodl):
    """The XML namespace in which a type's elements are."""
    return "urn:pbm" if vmodl.startswith("pbm.") else "urn:vim25"


class Type:
    """A data, enum or managed type: `vmodl` is its name in the tables, `wsdl` the one on the wire."""

    def __init__(self, kind, vmodl, wsdl, parent, version, own=(), values=(), methods=()):
        self.kind, self.vmodl, self.wsdl, self.parent, self.version = kind, vmodl, wsdl, parent, version
        self.own, self.values, self.methods = own, values, methods


class Tables:
    """All types by either name, and which release of which API knows what."""

    def __init__(self, site):
        self.by_vmodl, self.by_wsdl = {}, {}
        self.api, self.parents = {}, collections.defaultdict(set)
        self._declare_builtin()
        for module in ("core", "query", "vim", "pbm"):
            self._read(os.path.join(site, "pyVmomi", f"_typeinfo_{module}.py"))
        self.releases = {(space, name): version for version, (space, name) in self.api.items() if name}

    # -- reading -----------------------------------------------------------------------------------------------------
    def _declare_builtin(self):
        """The few types that pyVmomi writes by hand."""
        self._add(Type("managed", "vmodl.ManagedObject", "ManagedObject", None, ALWAYS))
        self._add(Type("data", "vmodl.DataObject", "DataObject", None, ALWAYS))
        cause = [("faultCause", "vmodl.LocalizedMethodFault", ALWAYS, OPTIONAL),
                 ("faultMessage", "vmodl.LocalizableMessage[]", ALWAYS, OPTIONAL)]
        self._data("vmodl.MethodFault", "MethodFault", "vmodl.DataObject", ALWAYS, cause)
        self._data("vmodl.RuntimeFault", "RuntimeFault", "vmodl.MethodFault", ALWAYS, None)
        self._data("vmodl.LocalizedMethodFault", "LocalizedMethodFault", "vmodl.DataObject", ALWAYS,
                   [("fault", "vmodl.MethodFault", ALWAYS, 0), ("localizedMessage", "string", ALWAYS, OPTIONAL)])

    def _read(self, path):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"^from \.VmomiSupport import.*$", "", file.read(), flags=re.M)
        ignored = type("Ignored", (), {"Add": lambda self, *_: None})()
        declarations = {
            "CreateDataType": self._data, "CreateManagedType": self._managed, "CreateEnumType": self._enum,
            "AddVersion": lambda version, space, name, *_: self.api.__setitem__(version, (space, name)),
            "AddVersionParent": lambda version, parent: self.parents[version].add(parent),
            "AddBreakingChangesInfo": lambda *_: None,
            "F_LINKABLE": 1, "F_LINK": LINK, "F_OPTIONAL": OPTIONAL, "F_SECRET": 8,
            "newestVersions": ignored, "ltsVersions": ignored, "oldestVersions": ignored, "dottedVersions": ignored,
        }
        exec(compile(text, path, "exec"), declarations)

    def _add(self, declared):
        self.by_vmodl[declared.vmodl] = declared
        self.by_wsdl.setdefault(declared.wsdl, declared)

    @staticmethod
    def _fields(owner, entries):
        """A link carries the key of what it leads to, and not the object itself."""
        return [Field(name, "string" if flags & LINK else kind.removesuffix("[]"), kind.endswith("[]"), bool(flags & OPTIONAL), version,
                      space_of(owner)) for name, kind, version, flags, *_ in entries or ()]

    def _data(self, vmodl, wsdl, parent, version, properties):
        self._add(Type("data", vmodl, wsdl, parent, version, self._fields(vmodl, properties)))

    def _enum(self, vmodl, wsdl, version, values):
        self._add(Type("enum", vmodl, wsdl, None, version, values=tuple(values)))

    def _managed(self, vmodl, wsdl, parent, version, properties, methods):
        known = {}
        for _, name, since, params, result, privilege, faults in methods or ():
            known[name] = Method(name, since, self._fields(vmodl, params), result[1].removesuffix("[]"), result[1].endswith("[]"),
                                 privilege, faults or [])
        self._add(Type("managed", vmodl, wsdl, parent, version, self._fields(vmodl, properties), methods=known))

    # -- asking ------------------------------------------------------------------------------------------------------
    def line(self, kind):
        """The type and its ancestors, the type first."""
        while kind is not None:
            yield kind
            kind = self.by_vmodl.get(kind.parent)

    def fields(self, kind):
        """All fields in the order of the WSDL: the oldest ancestor's first."""
        return [field for ancestor in reversed(list(self.line(kind))) for field in ancestor.own]

    def is_a(self, kind, base):
        return any(ancestor is base for ancestor in self.line(kind))

    def method(self, managed, name):
        """The method as the managed type has it, its own or an ancestor's; None if it has none."""
        kind = self.by_wsdl.get(managed)
        return next((k.methods[name] for k in self.line(kind) if name in k.methods), None)

    def property(self, managed, path):
        """The fields along a property path such as config.hardware.numCPU, and None; or None and what is wrong with it."""
        kind, met = self.by_wsdl.get(managed), []
        if kind is None or kind.kind != "managed":
            return None, f"no managed type {managed}"
        for part in re.sub(r"\[[^]]*\]", "", path).split("."):
            field = next((f for f in self.fields(kind) if f.name == part), None) if kind else None
            if field is None:
                return None, f"{kind.wsdl if kind else 'a scalar'} has no property {part}"
            met.append(field)
            kind = self.by_vmodl.get(field.type)
        return met, None

    def knows(self, space, release, version):
        """Whether that release of the API (such as vim25, 8.0.3.0) knows what came with the version of the tables."""
        at = self.releases.get((space, release))
        return at is not None and (version == at or version in self.parents[at])

    def since(self, version):
        """The API and the release with which a version of the tables came."""
        space, name = self.api.get(version, ("", ""))
        return "pbm" if space == "pbm" else "vim25", name or "2.0"
