"""SOAP: requests and answers of /sdk and /pbm, as the WSDL has them."""
import re
import xml.etree.ElementTree as ET

from tables import ALWAYS, PRIMITIVES, Field
from vim import INTEGERS, PROPERTIES, SCALARS, TIME, Vim, is_integer

XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
ENVELOPE = "{http://schemas.xmlsoap.org/soap/envelope/}"
SPACES = {"/sdk": "urn:vim25", "/pbm": "urn:pbm"}


class Soap(Vim):
    """Checks one exchange of SOAP."""

    def __init__(self, tables, findings, path, knows=lambda version: True):
        super().__init__(tables, findings, knows)
        self.space = SPACES[path]
        self.wrapper = tables.by_vmodl["vmodl.LocalizedMethodFault"]

    def request(self, body):
        """Checks a request; gives the method's name, and the method or None."""
        call = ET.fromstring(body).find(f"{ENVELOPE}Body")[0]
        space, name = split(call.tag)
        if space != self.space:
            self.report("namespace", name, f"{space} instead of {self.space}")
        this = next(iter(call), None)
        if this is None or split(this.tag)[1] != "_this":
            self.report("order", name, "_this must come first")
            return name, None
        method = self.tables.method(this.get("type"), name)
        if method is None:
            self.report("method", name, f"{this.get('type')} has no method {name}")
            return name, None
        self.findings.use(method.version, name, name)
        self.children(name, list(call)[1:], method.params)
        self.filters(name, call)
        return name, method

    def answer(self, body, status, method):
        """Checks the answer to a call of the method."""
        content = ET.fromstring(body).find(f"{ENVELOPE}Body")[0]
        if content.tag == f"{ENVELOPE}Fault":
            return self.fault(method.name, content, status)
        expected = f"{{{self.space}}}{method.name}Response"
        if content.tag != expected:
            return self.report("answer", method.name, f"{content.tag} instead of {expected}")
        if method.result == "void":
            if len(content):
                self.report("answer", method.name, "a value where void is declared")
            return None
        result = Field("returnval", method.result, method.list, True, ALWAYS, self.space)
        return self.children(f"{method.name}→", list(content), [result])

    def fetched(self, request, body, status):
        """Checks the answer to Fetch, which reads one property and is in none of the tables."""
        call = ET.fromstring(request).find(f"{ENVELOPE}Body")[0]
        content = ET.fromstring(body).find(f"{ENVELOPE}Body")[0]
        managed, name = call[0].get("type"), call[1].text
        if content.tag == f"{ENVELOPE}Fault":
            return self.fault(f"{managed}.{name}", content, status)
        met, wrong = self.tables.property(managed, name)
        if wrong:
            return self.report("property", f"{managed}.{name}", wrong)
        for value in content:
            named = local(value.get(f"{XSI}type"))
            self.property_value("Fetch→", managed, name, named)
            self.anything(f"{managed}.{name}", value, named or met[-1].type)
        return None

    def fault(self, place, fault, status):
        if status != 500:
            self.report("status", place, f"HTTP {status} with a fault")
        detail = fault.find("detail")
        if detail is None or not len(detail):
            return self.report("fault", place, "has no detail")
        space, name = split(detail[0].tag)
        kind = self.tables.by_wsdl.get(local(detail[0].get(f"{XSI}type")) or "")
        if kind is None or not self.tables.is_a(kind, self.tables.by_vmodl["vmodl.MethodFault"]):
            return self.report("fault", place, f"{detail[0].get(f'{XSI}type')!r} is no fault")
        if name != f"{kind.wsdl}Fault" or space not in SPACES.values():
            self.report("fault", place, f"{{{space}}}{name} instead of {kind.wsdl}Fault")
        return self.children(f"{place}!{kind.wsdl}", list(detail[0]), self.tables.fields(kind))

    # -- elements ----------------------------------------------------------------------------------------------------
    def children(self, place, elements, fields, wraps=True):
        at, seen = 0, set()
        for element in elements:
            space, name = split(element.tag)
            found = next((i for i, field in enumerate(fields) if field.name == name), None)
            if found is None:
                self.report("unknown", f"{place}.{name}", "no such element")
                continue
            field = fields[found]
            if space != field.space:
                self.report("namespace", f"{place}.{name}", f"{space!r} instead of {field.space}")
            if found < at:
                self.report("order", f"{place}.{name}", f"belongs before {fields[at].name}")
            at = max(at, found)
            if name in seen and not field.list:
                self.report("cardinality", f"{place}.{name}", "more than one")
            seen.add(name)
            self.findings.use(field.version, f"{place}.{name}", name)
            wrapped = wraps and field.type == "vmodl.MethodFault"
            self.element(f"{place}.{name}", element, self.wrapper.vmodl if wrapped else field.type)
        for field in fields:
            if not field.optional and not field.list and field.name not in seen and self.knows(field.version):
                self.report("required", place, f"{field.name} is missing")

    def element(self, place, element, declared):
        named = local(element.get(f"{XSI}type"))
        if declared == "anyType":
            return self.anything(place, element, named)
        if declared in PRIMITIVES:
            return self.scalar(place, element, PRIMITIVES[declared])
        kind = self.tables.by_vmodl.get(declared)
        if kind is None:
            return self.report("tables", place, f"declare no {declared}")
        return self.typed(place, element, kind, named)

    def typed(self, place, element, kind, named):
        if kind.kind == "managed":
            return self.reference(place, element.get("type"), element.text, kind)
        if kind.kind == "enum":
            return self.enum(place, element.text or "", kind)
        actual = self.resolve(place, named, kind, "xsi:type")
        if actual is not None:
            self.children(place, list(element), self.tables.fields(actual), actual is not self.wrapper)
            if actual.wsdl in PROPERTIES:
                self.properties(place, element, PROPERTIES[actual.wsdl])
        return None

    def properties(self, place, element, list_name):
        child = lambda parent, name: parent.find(f"{{{SPACES['/sdk']}}}{name}")
        for each in element.findall(f"{{{SPACES['/sdk']}}}{list_name}"):
            if child(each, "val") is not None:
                named = local(child(each, "val").get(f"{XSI}type"))
                self.property_value(place, child(element, "obj").get("type"), child(each, "name").text, named)

    def wrapped(self, declared):
        """A fault that is not raised travels with its text."""
        return self.wrapper if declared.vmodl == "vmodl.MethodFault" else declared

    def anything(self, place, element, named):
        if named is None:
            return self.report("xsi:type", place, "missing where anyType is declared")
        if named == "ManagedObjectReference":
            return self.reference(place, element.get("type"), element.text, self.tables.by_vmodl["vmodl.ManagedObject"])
        if named in SCALARS:
            return self.scalar(place, element, named)
        if named.startswith("ArrayOf"):
            held = self.element_of(place, named, "xsi:type")
            for child in element if held else ():
                if split(child.tag)[1] != named.removeprefix("ArrayOf"):
                    # Arrays of scalars name their elements by the type in lower case: <string>, <int>.
                    if split(child.tag)[1].lower() != named.removeprefix("ArrayOf").lower():
                        self.report("unknown", f"{place}.{split(child.tag)[1]}", f"no element of {named}")
                self.element(f"{place}[]", child, held)
            return None
        kind = self.tables.by_wsdl.get(named)
        if kind is None:
            return self.report("xsi:type", place, f"there is no type {named}")
        self.findings.use(kind.version, place, kind.wsdl)
        return self.typed(place, element, kind, None)

    def scalar(self, place, element, kind):
        text = element.text or ""
        if len(element):
            return self.report("value", place, "must be text")
        if kind in INTEGERS:
            right = re.fullmatch(r"[+-]?\d+", text.strip()) and is_integer(int(text), kind)
        elif kind == "boolean":
            right = text in ("true", "false", "1", "0")
        elif kind == "dateTime":
            right = TIME.fullmatch(text)
        else:
            right = True
        if not right:
            self.report("value", place, f"{text!r} is no {kind}")
        return None

    # -- the property collector --------------------------------------------------------------------------------------
    def filters(self, place, call):
        name = lambda tag: f"{{{SPACES['/sdk']}}}{tag}"
        for spec in call.iter(name("propSet")):
            if spec.findtext(name("type")):
                self.property_paths(place, spec.findtext(name("type")), [path.text for path in spec.findall(name("pathSet"))])
        for spec in call.iter(name("selectSet")):
            if spec.findtext(name("type")):
                self.property_paths(place, spec.findtext(name("type")), [spec.findtext(name("path"))], True)


def split(tag):
    """Namespace and name of a tag."""
    space, _, name = tag[1:].partition("}") if tag.startswith("{") else ("", "", tag)
    return space, name


def local(name):
    return name.split(":")[-1] if name else None
