"""Whether a document is what OpenAPI 3.1 says it must be: the objects that ours uses, their fields, references, ids.

There is no package in Debian that knows, so this is the part of the specification that matters here; schemas are
checked against JSON Schema 2020-12's own schema."""

import re

import jsonschema

# Fields of each kind of object: {name: kind of its value}; None: a plain value. "[kind]" is a list, "{kind}" a map.
# Names that end in "!" must be there.
KINDS = {
    "document": {"openapi!": None, "info!": "info", "servers": "[server]", "tags": "[tag]", "security": None,
                 "paths!": "{path item}", "components": "components"},
    "info": {"title!": None, "version!": None, "summary": None, "description": None},
    "server": {"url!": None, "description": None},
    "tag": {"name!": None, "description": None},
    "path item": {"get": "operation", "post": "operation"},
    "operation": {"tags!": None, "operationId!": None, "summary!": None, "description": None,
                  "parameters": "[parameter]", "security": None, "requestBody": "request body",
                  "responses!": "{response}"},
    "parameter": {"name!": None, "in!": None, "description": None, "required": None, "schema!": "schema",
                  "example": None},
    "request body": {"description": None, "required": None, "content!": "{media type}"},
    "response": {"description!": None, "headers": "{header}", "content": "{media type}"},
    "header": {"description": None, "required": None, "schema!": "schema"},
    "media type": {"schema!": "schema", "examples": "{example}"},
    "example": {"summary": None, "value!": None},
    "components": {"securitySchemes": "{security scheme}", "parameters": "{parameter}", "headers": "{header}",
                   "requestBodies": "{request body}", "responses": "{response}", "schemas": "{schema}"},
    "security scheme": {"type!": None, "scheme!": None, "description": None},
}
# Keywords of schemas, with what they hold: a misspelt one would be ignored.
SCHEMA_KEYWORDS = {
    "type": None, "enum": None, "const": None, "default": None, "description": None, "title": None, "pattern": None,
    "minimum": None, "maximum": None, "minLength": None, "minItems": None, "maxItems": None, "minProperties": None,
    "required": None, "contentEncoding": None, "additionalProperties": "schema", "items": "schema", "not": "schema",
    "if": "schema", "then": "schema", "else": "schema", "properties": "{schema}", "anyOf": "[schema]",
    "oneOf": "[schema]", "allOf": "[schema]",
}


def structure_faults(document):
    """What is wrong with an OpenApiDocument, a line each."""
    check = _Check(document)
    check.visit("document", document.root, "#")
    check.operations()
    check.components_are_used()
    return check.faults


class _Check:
    def __init__(self, document):
        self.document = document
        self.faults = []
        self.references = set()

    def visit(self, kind, value, place):
        if kind is None:
            return
        if kind.startswith("["):
            for index, entry in enumerate(value):
                self.visit(kind[1:-1], entry, f"{place}/{index}")
        elif kind.startswith("{"):
            for name, entry in value.items():
                self.visit(kind[1:-1], entry, f"{place}/{name}")
        elif kind == "schema":
            self.schema(value, place)
        elif isinstance(value, dict) and "$ref" in value:
            self.reference(value["$ref"], place)
            if set(value) != {"$ref"}:
                self.faults.append(f"{place}: something beside a reference")
        else:
            self.object(kind, value, place)

    def object(self, kind, value, place):
        fields = {name.rstrip("!"): of for name, of in KINDS[kind].items()}
        for name in KINDS[kind]:
            if name.endswith("!") and name[:-1] not in value:
                self.faults.append(f"{place}: the {kind} has no {name[:-1]}")
        for name, entry in value.items():
            if name not in fields:
                self.faults.append(f"{place}: a {kind} has no field {name}")
            else:
                self.visit(fields[name], entry, f"{place}/{name}")
        if kind == "parameter" and value.get("in") not in ("path", "query", "header"):
            self.faults.append(f"{place}: parameters are not in {value.get('in')}")

    def schema(self, value, place):
        if isinstance(value, bool):
            return
        try:
            jsonschema.Draft202012Validator.check_schema(value)
        except jsonschema.SchemaError as error:
            self.faults.append(f"{place}: {error.message}")
        for name, entry in value.items():
            if name == "$ref":
                self.reference(entry, place)
            elif name not in SCHEMA_KEYWORDS:
                self.faults.append(f"{place}: schemas have no keyword {name}")
            else:
                self.visit(SCHEMA_KEYWORDS[name], entry, f"{place}/{name}")
        for name in value.get("required", ()):
            if value.get("additionalProperties") is False and name not in value.get("properties", {}):
                self.faults.append(f"{place}: {name} is required, but not described")

    def reference(self, reference, place):
        self.references.add(reference)
        try:
            self.document.lookup(reference)
        except (KeyError, TypeError):
            self.faults.append(f"{place}: there is no {reference}")

    def operations(self):
        root = self.document.root
        if not re.fullmatch(r"3\.1\.\d+", root["openapi"]):
            self.faults.append(f"this is OpenAPI {root['openapi']}")
        tags = [tag["name"] for tag in root["tags"]]
        used_tags, ids = set(), set()
        for operation in self.document.operations:
            described, place = operation.described, f"{operation.method} {operation.path}"
            if operation.id in ids:
                self.faults.append(f"{place}: the operationId {operation.id} occurs twice")
            ids.add(operation.id)
            used_tags.update(described["tags"])
            for scheme in (name for need in described.get("security", ()) for name in need):
                if scheme not in root["components"]["securitySchemes"]:
                    self.faults.append(f"{place}: there is no security scheme {scheme}")
            if not all(100 <= status <= 599 for status in operation.responses) or 200 not in operation.responses:
                self.faults.append(f"{place}: responses {list(operation.responses)}")
            in_path = {parameter["name"] for parameter in operation.parameters if parameter["in"] == "path"}
            if in_path != set(re.findall(r"\{([^}]*)\}", operation.path)):
                self.faults.append(f"{place}: parameters of the path are {in_path}")
        if used_tags != set(tags) or len(tags) != len(set(tags)):
            self.faults.append(f"tags {tags}, used are {used_tags}")

    def components_are_used(self):
        text = self.document.root["info"]["description"]
        for kind, entries in self.document.root["components"].items():
            for name in entries:
                reference = f"#/components/{kind}/{name}"
                if kind != "securitySchemes" and reference not in self.references and reference not in text:
                    self.faults.append(f"nothing uses {reference}")
