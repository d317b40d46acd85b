"""The Automation API (/api), as Broadcom's generator wrote it into vmware-vcenter.

The generated modules are parsed and not run. Each stub lists its operations: the HTTP method and path, what travels in path,
query and headers, and the types of parameters and answer. Texts say in which release something was added.
"""
import ast
import os
import re

MODULES = re.compile(r"^com\.vmware\.(content|cis|vcenter\.ovf|vcenter\.tagging|vcenter_client|vapi\.std|vcenter\.cluster)")
ADDED = re.compile(r"This (\w+) was\s+added\s+in\s+\*\*vSphere\s+API\s+([\d.]+)\*\*")


class Operation:
    """One operation. `input` maps parameters to types; `path`, `query` and `header` map them to names there."""

    def __init__(self, module, name, metadata, input, output, since):
        self.module, self.name, self.input, self.output, self.since = module, name, input, output, since
        self.verb, self.url = metadata["http_method"], metadata["url_template"]
        self.body = metadata.get("request_body_parameter")
        self.path, self.query, self.header = (metadata.get(key) or {} for key in ("path_variables", "query_parameters", "header_parameters"))

    def __str__(self):
        return f"{self.module.split('.')[-1].removesuffix('_client')}.{self.name}"


class Bindings:
    """All operations, structures (member → type) and enumerations (members) of the modules that are looked at."""

    def __init__(self, site):
        self.operations, self.structures, self.enums, self.added = [], {}, {}, {}
        for folder, _, files in os.walk(os.path.join(site, "com", "vmware")):
            for file in files:
                path = os.path.join(folder, file)
                module = os.path.relpath(path, site)[:-3].replace(os.sep, ".")
                if file.endswith("_client.py") and MODULES.match(module):
                    with open(path, encoding="utf-8") as text:
                        self._module(module, ast.parse(text.read()))

    def _module(self, module, tree):
        documents = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.endswith("Stub"):
                self._class(module, node, node.name, documents)
        self._declared(module, tree.body, "")
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Stub"):
                init = next(f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__")
                service = node.name.removeprefix("_").removesuffix("Stub")
                self._operations(module, init, {name: documents.get(f"{service}.{name}", "") for name in self._names(init)})

    def _class(self, module, node, name, documents):
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef):
                documents[f"{name}.{inner.name}"] = ast.get_docstring(inner) or ""
                if inner.name == "__init__":
                    self._added(f"{module}:{name}", documents[f"{name}.{inner.name}"])
            if isinstance(inner, ast.ClassDef):
                if any(isinstance(base, ast.Name) and base.id == "Enum" for base in inner.bases):
                    self.enums[f"{module}:{name}.{inner.name}"] = [
                        a.targets[0].id for a in inner.body if isinstance(a, ast.Assign) and isinstance(a.value, ast.Constant)]
                self._class(module, inner, f"{name}.{inner.name}", documents)
        self._declared(module, node.body, name + ".")

    def _added(self, structure, text):
        """Notes with which release each member of a structure came, where the text says so."""
        for block in text.split(":type ")[1:]:
            name, found = block.split(":")[0].strip(), ADDED.search(block)
            if found:
                self.added[structure, name] = found.group(2)

    def _declared(self, module, body, prefix):
        for node in body:
            call = node.value if isinstance(node, ast.Expr) else None
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "_set_binding_type"):
                continue
            name, declared = ast.unparse(call.func.value), call.args[0]
            if declared.func.attr in ("StructType", "ErrorType"):
                self.structures[f"{module}:{prefix}{name}"] = mapping(declared.args[1])
            elif declared.func.attr == "EnumType":
                self.enums.setdefault(f"{module}:{prefix}{name}", [])

    @staticmethod
    def _assignments(init):
        return {node.targets[0].id: node.value for node in init.body
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}

    def _names(self, init):
        return [name.removesuffix("_rest_metadata") for name in self._assignments(init) if name.endswith("_rest_metadata")]

    def _operations(self, module, init, texts):
        assigned = self._assignments(init)
        operations = assigned["operations"]
        outputs = {key.value: mapping(value)["output_type"] for key, value in zip(operations.keys, operations.values)}
        for name in self._names(init):
            metadata = {word.arg: literal(word.value) for word in assigned[f"{name}_rest_metadata"].keywords}
            input = assigned.get(f"{name}_input_type")
            found = next((release for kind, release in ADDED.findall(texts[name].split(":type ")[0]) if kind == "method"), None)
            self.operations.append(Operation(module, name, metadata, mapping(input.args[1]) if input else {}, outputs.get(name), found))


def mapping(node):
    """A literal dictionary of types, as text."""
    return {key.value: ast.unparse(value) for key, value in zip(node.keys, node.values)}


def literal(node):
    """The value of a keyword; of query parameters, the names by which they travel."""
    if isinstance(node, ast.Call):
        renamed = ast.literal_eval(node.keywords[0].value) if node.keywords else {}
        return {name: renamed.get(name, name) for name in ast.literal_eval(node.args[0])} if node.args else {}
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
