"""The server's own description of its API: /openapi.json, with what tests ask of it.

    document = OpenApiDocument(server.get("/openapi.json").json())
    for operation in document.operations: …          # Operation: method, path, route, what it takes and answers
    faults = operation.faults(reply)                 # of a real answer, as the document has it; [] if there are none
"""

import json
import re

import jsonschema

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Of every HTTP answer; no API's concern.
PLAIN_HEADERS = {"connection", "content-length", "content-type", "date"}
# Ours and the peers' fields must all be described, in 200s; errors that come after the body was read have them too.
COST_HEADERS = ("x-compute-", "x-total-time", "x-tokenization-time", "x-queue-time", "x-inference-time", "x-espalier-")


def _items(validator, items, instance, schema):
    """JSON Schema's `items`, quick for what embeddings are."""
    if (
        items == {"type": "number"}
        and type(instance) is list
        and all(type(entry) in (int, float) for entry in instance)
    ):
        return
    yield from jsonschema.Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"items": _items})


class OpenApiDocument:
    def __init__(self, root):
        self.root = root
        self.operations = [
            Operation(self, method.upper(), path, item[method])
            for path, item in root["paths"].items()
            for method in METHODS
            if method in item
        ]

    def operation(self, operation_id):
        return next(one for one in self.operations if one.id == operation_id)

    def lookup(self, reference):
        """What a reference within the document points at; KeyError if there is nothing."""
        if not reference.startswith("#/"):
            raise KeyError(reference)
        node = self.root
        for part in reference[2:].split("/"):
            node = node[part.replace("~1", "/").replace("~0", "~")]
        return node

    def resolve(self, value):
        while isinstance(value, dict) and "$ref" in value:
            value = self.lookup(value["$ref"])
        return value

    def validator(self, schema):
        """Checks values against `schema`, whose references are the document's."""
        return Validator({**schema, "components": {"schemas": self.root["components"]["schemas"]}})

    def response_faults(self, response, reply):
        """What a real answer has that the document's `response` does not allow, and the other way round."""
        response = self.resolve(response)
        return [*self._header_faults(response, reply), *self._body_faults(response, reply)]

    def _header_faults(self, response, reply):
        described = {name.lower(): self.resolve(header) for name, header in response.get("headers", {}).items()}
        for name, header in described.items():
            if name not in reply.headers:
                if header.get("required") or name.startswith(COST_HEADERS):
                    yield f"there is no header {name}"
                continue
            for error in self.validator(header["schema"]).iter_errors(reply.headers[name]):
                yield f"header {name}: {error.message}"
        for name in reply.headers:
            ours = name.startswith("x-") or name in ("etag", "retry-after", "www-authenticate", "allow")
            tells_cost = reply.status != 200 and name.startswith(COST_HEADERS)
            if ours and name not in described and name != "x-content-type-options" and not tells_cost:
                yield f"the header {name} is not described"

    def _body_faults(self, response, reply):
        content = response.get("content")
        if content is None:
            if reply.body:
                yield "there is a body"
            return
        media_type = reply.headers.get("content-type", "").split(";")[0]
        if media_type not in content:
            yield f"the content type is {media_type!r}, not one of {list(content)}"
            return
        value = json.loads(reply.body) if media_type == "application/json" else reply.body.decode()
        yield from schema_faults(self.validator(content[media_type]["schema"]), value)


def schema_faults(validator, value):
    for error in validator.iter_errors(value):
        deepest = min([error, *(error.context or [])], key=lambda one: -len(one.absolute_path))
        place = "/".join(map(str, deepest.absolute_path))
        yield f"body, at /{place}: {deepest.message[:300]}"


class Operation:
    """One method of one path."""

    def __init__(self, document, method, path, described):
        self.document = document
        self.method = method
        self.path = path
        self.described = described
        self.id = described["operationId"]
        # As metrics name it.
        self.route = re.sub(r"\{[^}]*\}$", "*", path)
        self.responses = {
            int(status): document.resolve(response) for status, response in described["responses"].items()
        }
        self.parameters = [document.resolve(parameter) for parameter in described.get("parameters", [])]
        content = document.resolve(described.get("requestBody", {})).get("content", {})
        self.body = content.get("application/json")
        self.body_validator = document.validator(self.body["schema"]) if self.body else None

    def example_path(self):
        """The path, with its parameters' examples in it."""
        path = self.path
        for parameter in self.parameters:
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", parameter["example"])
        return path

    def examples(self):
        """[(name, body, the answer's example or None)]."""
        answers = self.responses[200]["content"].get("application/json", {}).get("examples", {})
        return [
            (name, example["value"], answers[name]["value"] if name in answers else None)
            for name, example in (self.body or {}).get("examples", {}).items()
        ]

    def accepts(self, body):
        """Whether `body`, a Python value, is valid by the schema."""
        return self.body_validator.is_valid(body)

    def faults(self, reply):
        if reply.status not in self.responses:
            return [f"the status {reply.status} is not described"]
        return list(self.document.response_faults(self.responses[reply.status], reply))
