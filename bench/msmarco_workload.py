#!/usr/bin/env python3
"""Queries and passages shaped like MS MARCO's, made up from a word list: the same ones for the same seed.

  bench/msmarco_workload.py [--binary build/release/espalier] [--model FOLDER] [--requests 16] [--print 2]

Under Qwen3's tokenizer a query has 8 tokens on average (3 to 20) and a passage 85 (30 to 200). Prints these figures as
`espalier tokenize` counts them, and some of the prompts. The other scripts import this one.

Words follow Zipf's law, function words first, so texts share their first words about as often as English ones do.
Sentences mean nothing, which costs and saves no time. Python's standard library is enough.
"""
import argparse
import itertools
import json
import math
import random
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import bench_server

QUERY_TOKENS, PASSAGE_TOKENS = 8, 85  # averages
PASSAGES_MIN, PASSAGES_MAX = 5, 11    # of a query; 8 on average
AVERAGE_TOLERANCE = 0.05

# Qwen3-Reranker's prompt, as /v1/rerank makes it (text/rerank_prompt.cpp).
HEAD = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
        "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n")
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
TAIL = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

FUNCTION_WORDS = """the of and to in a is for that are it on as with was be by or from this at can you an have not your
which has if their more will when one they may also but other what used most all these its about some there than into
how up time only many out who would been over between no such each should do first two any both during where while
then after before under through because very per less often usually""".split()
NOUNS = """year day water people body state name number system blood part cost area home food company school city
county hour month week price service age type cell level law family business bank house credit card rate tax plan
doctor heart muscle skin bone brain disease symptom treatment pain infection drug dose medicine patient vitamin sugar
acid oil salt milk egg chicken meat rice bread fruit apple tree plant seed leaf flower soil animal dog cat bird fish
river lake ocean island mountain road car engine fuel battery phone computer file program software network page user
account password game team player season film song book author actor king president war army court judge contract
insurance loan income salary job worker student teacher college degree course test score question answer word letter
language sentence sound light color temperature weather rain snow wind storm sun moon earth star planet energy power
gas metal iron gold copper glass paper wood stone wall floor roof door window kitchen bath room garden store market
product brand customer payment fee wage pound dollar percent mile foot inch meter weight size length speed surface
structure process method effect cause example form group member role change growth risk benefit problem result test
period history century government party vote region population border airport hotel flight train station ticket
""".split()
VERBS = """use make take need include call cause contain help find give provide require work start allow produce
increase reduce treat affect apply show become keep pay cost occur develop form change move live lead follow create
determine measure consider receive remain add cook bake boil clean build remove replace open close read write learn
travel visit cover connect install support protect control test store charge claim offer return carry serve release
""".split()
ADJECTIVES = """high low new common different large small good long general public local national average normal
medical natural important human social free early full short main major best same certain possible available total
simple hot cold dry wet fresh raw red white black green blue old young healthy severe mild chronic active legal federal
annual monthly daily primary single several special similar strong heavy light deep wide open private personal
""".split()
RARE_WORDS = """cholesterol mitochondria hypothyroidism photosynthesis amoxicillin ibuprofen Massachusetts Pennsylvania
Albuquerque condominium thermostat electrolyte encyclopedia osteoporosis antihistamine hemoglobin arbitration
precipitation chlorophyll transistor carburetor escrow amortization deductible Medicaid zucchini rosemary turmeric
quinoa gastritis tendonitis sciatica vertebrae ligament estrogen melatonin glucose insulin keratin collagen limestone
sediment tectonic archipelago peninsula Sacramento Tallahassee Milwaukee Chattanooga Edinburgh Kilimanjaro""".split()
QUESTIONS = """what is|what is the|how long does|how much does it cost to|how to|what does|where is|who is|
what are the|how many|when was|why do|what county is|average cost of|definition of|what type of""".replace(
    "\n", "").split("|")


class Query(NamedTuple):
    text: str
    passages: list


def prompt(query, passage):
    return f"{HEAD}<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {passage}{TAIL}"


def inflected():
    """Content words and what grammar makes of them; the plain ones first."""
    plain = [word for group in itertools.zip_longest(NOUNS, VERBS, ADJECTIVES) for word in group if word]
    derived = [noun + "s" for noun in NOUNS if not noun.endswith(("s", "x", "y", "f", "ch", "sh"))]
    derived += [(verb[:-1] if verb.endswith("e") else verb) + "ing" for verb in VERBS]
    derived += [verb + "d" for verb in VERBS if verb.endswith("e")]
    derived += [adjective + "ly" for adjective in ADJECTIVES if adjective.endswith(("al", "nt", "ous", "re"))]
    return list(dict.fromkeys(plain + derived + RARE_WORDS))


def cost(word):
    """About how many tokens a word has."""
    return 2.3 if word in RARE_WORDS else 1


class Writer:
    """Draws words, queries and passages."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        content = inflected()
        self.content, self.content_weights = content, self.zipf(len(content), 30)
        self.words = FUNCTION_WORDS + content
        self.weights = self.zipf(len(self.words), 4)

    @staticmethod
    def zipf(count, offset):
        """Cumulative weights of ranks 1 … count; the offset flattens the top."""
        return list(itertools.accumulate(1 / (rank + offset) for rank in range(1, count + 1)))

    def length(self, average, sigma, low, high):
        """Lognormal, cut to a range."""
        return min(high, max(low, self.rng.lognormvariate(math.log(average) - sigma * sigma / 2, sigma)))

    def content_word(self):
        return self.rng.choices(self.content, cum_weights=self.content_weights)[0]

    def number(self):
        """A number as prose has them, and its tokens: Qwen3 makes one of each digit and one of the blank before."""
        kind = self.rng.randrange(3)
        text = str(self.rng.randrange(1900, 2020) if kind == 0 else self.rng.randrange(2, 100))
        return ("$" + text, len(text) + 1) if kind == 1 else (text, len(text) + 1)

    def words_of(self, tokens):
        """A list of words, sentences marked, of about so many tokens."""
        words, left = [], tokens - 1  # the full stop
        to_sentence_end = 0
        while left > 0.5:
            if to_sentence_end == 0:
                if words:
                    words[-1] += "."
                    left -= 1
                to_sentence_end = self.rng.randint(7, 22)
                starts = True
            if self.rng.random() < 0.03 and not starts:
                word, tokens_of_word = self.number()
            else:
                word = self.rng.choices(self.words, cum_weights=self.weights)[0]
                tokens_of_word = cost(word)
            if starts:
                word, starts = word[0].upper() + word[1:], False
            to_sentence_end -= 1
            left -= tokens_of_word
            if to_sentence_end and self.rng.random() < 0.06:
                word, left = word + ",", left - 1
            words.append(word)
        return words

    def passage(self):
        return " ".join(self.words_of(self.length(PASSAGE_TOKENS, 0.38, 30, 200))) + "."

    def query_text(self, average):
        tokens = round(self.length(average, 0.4, 3, 2.5 * average))
        words = self.rng.choice(QUESTIONS).split() if self.rng.random() < 0.7 else []
        words = words[:tokens - 1]
        left = tokens - len(words)
        while left > 0.5:
            word = self.content_word() if self.rng.random() < 0.75 else self.rng.choice(FUNCTION_WORDS[:25])
            words.append(word.lower())
            left -= cost(word)
        return " ".join(words)

    def query(self, passages, query_tokens=QUERY_TOKENS):
        return Query(self.query_text(query_tokens), [self.passage() for _ in range(passages)])

    def request(self, prompts):
        """Whole queries with `prompts` passages in all, 5 to 11 each."""
        count = max(1, round(2 * prompts / (PASSAGES_MIN + PASSAGES_MAX)))
        if not count * PASSAGES_MIN <= prompts <= count * PASSAGES_MAX:
            raise ValueError(f"{prompts} prompts do not go into {count} queries of {PASSAGES_MIN} to {PASSAGES_MAX}")
        passages = []
        while sum(passages) != prompts:
            passages = [self.rng.randint(PASSAGES_MIN, PASSAGES_MAX) for _ in range(count)]
        return [self.query(passages_of_query) for passages_of_query in passages]


def requests(count, prompts, seed=1):
    """`count` lists of queries; the first ones do not depend on `count`."""
    return [Writer(f"{seed} {number}").request(prompts) for number in range(count)]


def shuffled_prompts(queries, seed):
    prompts = [prompt(query.text, passage) for query in queries for passage in query.passages]
    random.Random(seed).shuffle(prompts)
    return prompts


def measure(queries, tokenize):
    """Token counts as `tokenize` (texts → lists of ids) has them, for printing and for JSON."""
    passages = [passage for query in queries for passage in query.passages]
    counts = {"query": [len(ids) for ids in tokenize([" " + query.text for query in queries])],
              "passage": [len(ids) for ids in tokenize([" " + passage for passage in passages])],
              "prompt": [len(ids) for ids in tokenize(
                  [prompt(query.text, passage) for query in queries for passage in query.passages])]}
    measured = {name: {"mean": round(statistics.mean(values), 2), "min": min(values), "max": max(values)}
                for name, values in counts.items()}
    measured["passages_of_query"] = round(len(passages) / len(queries), 2)
    return measured


def is_as_meant(measured):
    """Whether the averages are the ones promised; so under Qwen3's tokenizer, under another one probably not."""
    return all(abs(measured[name]["mean"] / meant - 1) <= AVERAGE_TOLERANCE
               for name, meant in (("query", QUERY_TOKENS), ("passage", PASSAGE_TOKENS)))


def describe(measured):
    parts = [f"{name} {m['mean']:.1f} ({m['min']}…{m['max']})" for name, m in measured.items() if isinstance(m, dict)]
    return f"tokens: {', '.join(parts)}; {measured['passages_of_query']:.1f} passages a query"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=bench_server.BINARY)
    parser.add_argument("--model", type=Path, default=bench_server.RANDOM_MODEL, help="folder with tokenizer.json")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=64, help="of a request")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--print", type=int, default=2, help="so many prompts are printed", dest="printed")
    arguments = parser.parse_args()
    queries = list(itertools.chain(*requests(arguments.requests, arguments.prompts, arguments.seed)))
    for query in queries[:arguments.printed]:
        print(json.dumps(query._asdict() | {"passages": query.passages[:1]}))
    measured = measure(queries, lambda texts: bench_server.tokenize(arguments.binary, arguments.model, texts))
    print(describe(measured))
    if not is_as_meant(measured):
        sys.exit(f"the averages are not {QUERY_TOKENS} and {PASSAGE_TOKENS}; is this Qwen3's tokenizer?")


if __name__ == "__main__":
    main()
