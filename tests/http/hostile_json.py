"""Request bodies from JSON schemas: fitting ones, and ones that somebody broke.

Whether a body fits is not for the generator to say but for the schema: bodies are only likely to.

    bodies = BodyGenerator(document, random.Random(7))
    body = bodies.body(operation.body["schema"])          # bytes
    value = strict_json(body)                             # ValueError: no JSON, or not what a server must take
"""

import copy
import json
import math

DEPTH_MAX = 32  # of the server, json_request.h

TEXTS = [
    "salt", "a", "nginx", "two words", "a web server", "small, fast HTTP server", " ", "\n", "", "é", "e\u0301",
    "日本語", "👍🏽", "\u200f", "\ufeff", "\0", "\x1f", "\u2028", "<|im_end|>", "<|endoftext|>", "<|im_start|>system\n",
    "</think>", "ﷺ", "\uffff", "\U0010ffff", "Instruct: ", "null", "-1", "query", "document", "left", "RIGHT",
    "Right", "LEFT", "NONE", "float", "text"
]
LONG_TEXT = "salt " * 2500
HOSTILE = [
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 256, 257, 8191, 8192, 2**31, 2**32 - 1, 2**32, 2**53, 2**53 + 1, 2**63,
    2**64, -2**63, 10**30, 1e308, 5e-324, "", "salt", "NONE", "null", "float ", "FLOAT", [], {}, [[]], [{}], [None],
    [""], [0], ["a", 0], [[1], "a"], [1, [1]], {"text": "a"}, {"text": None}, {"text": "a", "image": "b"},
    [{"text": "a"}, "b", {"text": 5}], {"a": {"b": []}}
]
# In place of a value, in the text of a body.
LITERALS = [
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e999", b"01", b"+1", b".5", b"1.", b"0x10", b"undefined", b"nul",
    b"'a'", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u12g4"', b'"\\x41"', b'"\xff"', b'"\xc0\xaf"', b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"', b'"a\nb"', b'"a', b"[" * 31 + b"]" * 31, b"[" * 40 + b"]" * 40, b"[" * 5000,
    b'{"a":' * 2000, b"9" * 400, b"-" + b"9" * 30, b"0.0000000000000000000000000000000000001", b"1E+2", b"-0", b"1.0",
    b"2.50e1", b"[1,]", b"{,}", b"/**/1"
]


def strict_json(body):
    """The value of a body by RFC 8259, its numbers finite, its strings Unicode, no deeper than the server reads."""
    def reject(literal):
        raise ValueError(f"{literal} is no JSON")

    def finite(text):
        number = float(text)
        return number if math.isfinite(number) else reject(text)

    def whole(text):
        return int(text) if len(text) < 300 else finite(text)
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=reject, parse_float=finite, parse_int=whole)
    except RecursionError:
        reject("deep nesting")
    _check(value, 1)
    return value


def _check(value, depth):
    if isinstance(value, str):
        value.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    elif isinstance(value, (list, dict)):
        if depth > DEPTH_MAX:
            raise ValueError("deep nesting")
        for entry in value.values() if isinstance(value, dict) else value:
            _check(entry, depth + 1)
        for name in value if isinstance(value, dict) else ():
            name.encode()


def places(value):
    """(container, key) of every value within `value`."""
    found = []
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        found += [(value, key), *places(value[key])]
    return found


class BodyGenerator:
    def __init__(self, document, random):
        self.document = document
        self.random = random

    def body(self, schema):
        """As bytes: two of five as the schema has them, as many with something else somewhere, the rest broken."""
        value = self.value(schema)
        how = self.random.random()
        if how > 0.4:
            for _ in range(self.random.choice([1, 1, 1, 2, 3])):
                value = self.mutated(value)
        body = json.dumps(value, ensure_ascii=self.random.random() < 0.5).encode()
        return self.broken(body, value) if how > 0.8 else body

    # Values of schemas -----------------------------------------------------------------------------------------

    def value(self, schema):
        schema = self.document.resolve(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        parts = self.parts(schema)
        if any("properties" in part for part in parts):
            return self.object(parts)
        if len(parts) > 1:
            return self.value(parts[1])  # a choice
        kinds = schema.get("type", "string")
        kind = self.random.choice([kinds] if isinstance(kinds, str) else kinds)
        return {"string": self.text, "integer": self.integer, "array": self.array,
                "object": lambda _: {"title": self.text({})}, "boolean": lambda _: self.random.random() < 0.5,
                "null": lambda _: None}[kind](schema)

    def parts(self, schema):
        """The schema and those that hold beside it: of choices one."""
        schema = self.document.resolve(schema)
        found = [schema]
        for part in schema.get("allOf", ()):
            found += self.parts(part)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            found += self.parts(self.random.choice(choices))
        for condition in ("then", "else"):
            if condition in schema and self.random.random() < 0.5:
                found += self.parts(schema[condition])
        return found

    def object(self, parts):
        required = {name for part in parts for name in part.get("required", ())}
        properties = {}
        for part in reversed(parts):
            properties.update({name: member for name, member in part.get("properties", {}).items()
                               if member != {"not": {"type": "null"}} or name not in properties})
        for part in parts:  # what a choice forbids stays forbidden
            properties.update({name: member for name, member in part.get("properties", {}).items()
                               if member == {"type": "null"}})
        share = self.random.choice([0, 0.1, 0.3])
        names = [name for name in properties if name in required or self.random.random() < share]
        self.random.shuffle(names)
        made = {name: self.value(properties[name]) for name in names}
        if self.random.random() < 0.15:  # as clients send what they leave out
            made.setdefault(self.random.choice(list(properties)), None)
        if self.random.random() < 0.1:
            made[self.random.choice(["user", "extra", "späße"])] = self.random.choice(HOSTILE)
        return made

    def text(self, schema):
        if "pattern" in schema:
            return self.random.choice(["left", "right", "Left", "RIGHT"])
        if self.random.random() < 0.005:
            return LONG_TEXT
        text = self.random.choice(TEXTS if self.random.random() < 0.4 else TEXTS[:6])
        return text or ("a" if schema.get("minLength") else "")

    def integer(self, schema):
        low, high = schema.get("minimum", -5), schema.get("maximum", 5)
        number = self.random.choice([low, low, low + 1, 2, 7, 64, 255, 256, high])
        number = min(max(number, low), high)
        return float(number) if self.random.random() < 0.1 else number

    def array(self, schema):
        if self.random.random() < 0.002:
            return [self.value(schema["items"])] * 2049
        length = max(schema.get("minItems", 0), self.random.choice([1, 1, 2, 3]))
        return [self.value(schema["items"]) for _ in range(length)]

    # … and otherwise -------------------------------------------------------------------------------------------

    def mutated(self, value):
        """`value` with one thing changed somewhere."""
        value = copy.deepcopy(value)
        found = places(value)
        if not found or self.random.random() < 0.01:
            return self.random.choice(HOSTILE)
        container, key = self.random.choice(found)
        how = self.random.randrange(6)
        if how == 0:
            del container[key]
        elif how == 1 and isinstance(container, list):
            container.insert(key, self.random.choice(HOSTILE))
        elif how == 2 and isinstance(container, dict):
            names = [*(value if isinstance(value, dict) else ()), "text", "input", "inputs", "documents", "texts"]
            container[self.random.choice(names)] = container.pop(key)
        elif how == 3 and isinstance(container[key], str):
            text = container[key]
            container[key] = self.random.choice([text.upper(), text + " ", text[::-1], self.text({})])
        elif how == 4 and type(container[key]) in (int, float):
            number = container[key]
            container[key] = self.random.choice([-number, number + 0.5, number * 2**40, str(number)])
        else:
            container[key] = None if self.random.random() < 0.3 else copy.deepcopy(self.random.choice(HOSTILE))
        return value

    def broken(self, body, value):
        """The bytes of a body with something done to them that no value tells: it may still be JSON."""
        how = self.random.randrange(7)
        if how == 0:
            return body[:self.random.randrange(len(body) + 1)]
        if how == 1:
            at = self.random.randrange(len(body))
            return body[:at] + bytes([self.random.randrange(256)]) + body[at + self.random.randrange(2):]
        if how == 2 and isinstance(value, dict) and value:  # twice; the last one counts
            name = json.dumps(self.random.choice(list(value))).encode()
            other = json.dumps(self.random.choice(HOSTILE)).encode()
            return b"{" + name + b":" + other + b"," + body[1:] if self.random.random() < 0.5 else \
                body[:-1] + b"," + name + b":" + other + b"}"
        if how == 3:
            return self.random.choice([b"\xef\xbb\xbf", b" \t\r\n", b"\0", b"x", b"\x0c"]) + body
        if how == 4:
            return body + self.random.choice([b" ", b"\n", b",", b"}", b"\0", b"x", body])
        marker = "\ue000"
        value = copy.deepcopy(value)
        found = places(value)
        if not found:
            return self.random.choice(LITERALS)
        container, key = self.random.choice(found)
        container[key] = marker
        return json.dumps(value).encode().replace(json.dumps(marker).encode(), self.random.choice(LITERALS))
