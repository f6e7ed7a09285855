"""--debug-endpoints: the timeline is a trace, the tries show what was computed, and nothing of the texts."""

import re
import unittest
import xml.etree.ElementTree as ElementTree

from espalier_server import ServerTest, distinct_prefixes, tokenize

PROMPT = "You are a careful librarian. Answer with the title of a book about "
TEXTS = [PROMPT + topic for topic in ("salt", "salt water", "ships", "ships and salt", "timber")] + ["salt"]
SEQUENCES = tokenize(TEXTS)


class OffTest(ServerTest):
    def test_they_are_not_there_unless_asked_for(self):
        for path in ("/debug/timeline", "/debug/trie", "/debug/trie.svg"):
            self.assert_error(self.server.get(path), 404)


class DebugEndpointsTest(ServerTest):
    options = ("--debug-endpoints",)

    def setUp(self):
        self.server.embed(TEXTS)

    def trace(self):
        reply = self.server.get("/debug/timeline")
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["content-type"], "application/json")
        return reply.json()["traceEvents"]

    def test_timeline_is_a_trace(self):
        events = self.trace()
        lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(sorted(lanes.values()), ["interludes", "planner", "worker"])
        for event in events:
            self.assertIn(event["ph"], ("M", "X"))
            self.assertIsInstance(event["pid"], int)
            if event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
                self.assertIn(event["tid"], lanes)
        passes = [event for event in events if event["ph"] == "X" and lanes[event["tid"]] == "worker"]
        last = passes[-1]["args"]
        self.assertEqual(last["sequences"], len(TEXTS))
        self.assertEqual(last["tokens"], sum(map(len, SEQUENCES)))
        self.assertEqual(last["compact_rows"], distinct_prefixes(SEQUENCES))
        self.assertIn(last["closed"], ("queue_empty", "rows", "sequences", "seconds"))
        self.assertGreaterEqual(last["predicted_ms"], 0)
        self.assertEqual(last["outcome"], "done")
        # Its plan was done before it began, and spans of one lane follow one another.
        plan = [event for event in events if event.get("cat") == "plan" and event["args"]["batch"] == last["batch"]][0]
        self.assertEqual(lanes[plan["tid"]], "planner")
        self.assertLessEqual(plan["ts"] + plan["dur"], passes[-1]["ts"] + 1)
        for before, after in zip(passes, passes[1:]):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1)
        self.assertGreater(passes[-1]["dur"], 0)

    def test_timeline_keeps_the_last_512_batches(self):
        for _ in range(520):
            self.server.embed([[5, 8187]])
        self.assertEqual(len([event for event in self.trace() if event.get("cat") == "pass"]), 512)

    def test_trie_adds_up(self):
        reply = self.server.get("/debug/trie")
        self.assertEqual(reply.status, 200)
        self.assertTrue(reply.headers["content-type"].startswith("text/plain"))
        text = reply.body.decode()
        self.assertRegex(text, f"^batch [0-9]+: {len(TEXTS)} sequences, {sum(map(len, SEQUENCES))} tokens in "
                               f"{distinct_prefixes(SEQUENCES)} rows")
        nodes = [tuple(map(int, match)) for match in
                 re.findall(r"^ *([0-9]+) tokens @ ([0-9]+), shared by ([0-9]+), ends ([0-9]+), subtree ([0-9]+) rows$",
                            text, re.MULTILINE)]
        self.assertEqual(sum(tokens for tokens, *_ in nodes), distinct_prefixes(SEQUENCES))
        self.assertEqual(sum(ends for *_, ends, _ in nodes), len(TEXTS))
        self.assertEqual(sum(tokens * shared for tokens, _, shared, _, _ in nodes), sum(map(len, SEQUENCES)))
        self.assertNotIn("librarian", text)

    def test_svg_has_a_box_for_each_node(self):
        reply = self.server.get("/debug/trie.svg")
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["content-type"], "image/svg+xml")
        picture = ElementTree.fromstring(reply.body)
        self.assertEqual(picture.tag, "{http://www.w3.org/2000/svg}svg")
        boxes = [element for element in picture.iter() if element.tag.endswith("}title")]
        nodes = re.findall(" tokens @ ", self.server.get("/debug/trie").body.decode())
        self.assertEqual(len(boxes), len(nodes))
        self.assertNotIn(b"librarian", reply.body)
        self.assertNotIn(b"<script", reply.body)

    def test_a_head_request_gets_no_body(self):
        reply = self.server.request("HEAD", "/debug/trie")
        self.assertEqual((reply.status, reply.body), (200, b""))


if __name__ == "__main__":
    unittest.main()
