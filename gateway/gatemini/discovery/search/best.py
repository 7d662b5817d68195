"""The default ranking: words in weighted fields, letters of the name, meaning; added as calibrated scores.

    score = words + letters^2 + 0.8 * meaning        (without meaning where there is no embedding)

words: BM25 over weighted fields divided by what a perfect match of the query's rarest terms would score;
letters: cosine of letter trigrams of the squashed tool name; meaning: cosine of sentence embeddings. Every signal lies
in 0..1, so they can be added without ranks; docs/concepts/discovery.md has the ablation of each.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from gatemini.discovery.search.bm25 import Bm25
from gatemini.discovery.search.lexicon import FOREIGN_STOP_WORDS, SPLIT, SYNONYMS, foreign, foreign_run
from gatemini.discovery.search.postings import Postings, Scores
from gatemini.discovery.search.query_repair import Vocabulary
from gatemini.discovery.search.ranked import Meaning, Ranked, likeness
from gatemini.discovery.search.words import (
    MAX_TEXT,
    STOP_WORDS,
    is_unspaced,
    pairs,
    parts,
    proper_names,
    raw_words,
    squash,
    stem,
    trigrams,
    words,
)
from gatemini.model import Json, Tool

W_NAME, W_DESCRIPTION, W_BACKEND, W_PARAMETER, W_PARAMETER_TEXT = 3.0, 1.0, 1.5, 0.5, 0.3
LETTERS, MEANING = 1.0, 0.8
NAME_SHARE = 0.5
"""Weight of the name's own vector beside that of name and description together."""
MATCH_WORDS, MATCH_LETTERS, MATCH_MEANING = 0.02, 0.3, 0.15
"""A tool whose signals are all at or below these is no match and is not counted."""
MATCH_SHARE = 0.17
"""A tool below this share of the best score is no match either."""
_IDEAL_TERMS = 6
SHORT_SHARE, SYNONYM_SHARE, FOREIGN_SHARE = 0.6, 0.6, 0.8
"""Shares of a word's weight: its long form, a synonym (both beside the word itself), a translation in its place."""
_MAX_PARAMETERS = 60
_MAX_VALUES, _MAX_VALUE_CHARS = 20, 300
"""Members of an enum that are indexed with a parameter's description, and their characters."""
ADDED = 12
"""Words of the lexicon that are encoded with a query at most."""
WIDENED_WORDS = 8
"""A query with more telling words than these is encoded as it is, without words of the lexicon."""
_MAX_SQUASHED = 60
_MAX_TERMS = 60


@dataclass(frozen=True, slots=True)
class Query:
    """A query after splitting, repair and translation: weighted stems, and its squashed text."""

    terms: dict[str, float]
    squashed: str
    repaired: dict[str, str] = field(default_factory=dict)


class BestRanker:
    """The signals of the default ranking, per slot."""

    def __init__(self) -> None:
        self._lexical = Bm25()
        self._letters = Postings()
        self._norms: dict[int, float] = {}
        self._name_words: Counter[str] = Counter()
        self.vocabulary = Vocabulary(self._lexical.postings.count, lambda w: self._name_words[w])

    def add(self, slot: int, tool: Tool) -> None:
        frequencies, named = _fields(tool)
        letters = Counter(trigrams(squash(tool.name)[:_MAX_SQUASHED]))
        fresh = self._lexical.add(slot, frequencies)
        self.vocabulary.add(fresh, raw_words(f"{tool.name} {tool.description[:MAX_TEXT]}") if fresh else ())
        self._letters.add(slot, letters)
        self._norms[slot] = max(1.0, math.sqrt(sum(n * n for n in letters.values())))
        self._name_words.update(named)

    def remove(self, slot: int, tool: Tool) -> None:
        self.vocabulary.remove(self._lexical.remove(slot))
        self._letters.remove(slot)
        del self._norms[slot]
        for word in words(tool.name):
            self._name_words[word] -= 1
            if not self._name_words[word]:
                del self._name_words[word]

    def rank(self, text: str, allowed: AbstractSet[int], meaning: Meaning | None, limit: int) -> Ranked:
        query = self.read(text)
        lexical = self.lexical(query)
        letters = self.letters(query)
        near = None if meaning is None else likeness(meaning, allowed)
        scores = fuse(lexical, letters, near, allowed)
        bound = MATCH_SHARE * max(scores.values(), default=0.0)
        found = {slot: score for slot, score in scores.items() if score >= bound}
        repaired = " ".join(query.repaired.get(w, w) for w in raw_words(text)) if query.repaired else None
        signals = {"words": lexical, "letters": letters, **({"meaning": near} if near is not None else {})}
        return Ranked(found, "best" if scores else "none", repaired if scores else None, signals)

    def read(self, text: str) -> Query:
        """Return the query's stems with weights: unknown words repaired, known ones widened by synonyms."""
        spoken = parts(text)
        named = proper_names(text)
        telling = [w for w in spoken if w not in STOP_WORDS and w not in FOREIGN_STOP_WORDS]
        terms: dict[str, float] = {}
        repaired: dict[str, str] = {}
        for joined in map("".join, itertools.pairwise(spoken)):
            if joined in SPLIT and stem(joined) in self._lexical.postings:
                _raise(terms, stem(joined), SHORT_SHARE)
        for word in dict.fromkeys(telling):
            if len(terms) >= _MAX_TERMS:
                break
            if is_unspaced(word):
                self._read_run(word, terms)
            else:
                shown = self._read_word(word, terms, repair=word not in named)
                if shown is not None:
                    repaired[word] = shown
        return Query(terms, squash(" ".join(telling or spoken))[:_MAX_SQUASHED], repaired)

    def widened(self, text: str) -> str:
        """Return the query with what the lexicon adds to it, which is what the model encodes.

        A long query says enough by itself: additions to single words of it only blur its vector.
        """
        if len({word for word in parts(text) if word not in STOP_WORDS}) > WIDENED_WORDS:
            return text
        own = set(words(text))
        added = [term for term in self.read(text).terms if term not in own][:ADDED]
        return f"{text} ({' '.join(added)})" if added else text

    def _read_run(self, run: str, terms: dict[str, float]) -> None:
        known = self._lexical.postings
        for pair in pairs(run):
            if pair in known:
                _raise(terms, pair, 1.0)
        for meant in foreign_run(run):
            _raise(terms, meant, FOREIGN_SHARE)

    def _read_word(self, word: str, terms: dict[str, float], *, repair: bool) -> str | None:
        """Add the terms of a word; return its repaired form where `did_you_mean` should show one."""
        base = stem(word)
        known = self._lexical.postings
        meant_by = foreign(word)
        translated = [s for s in meant_by if s in known] or [
            more for s in meant_by for more in SYNONYMS.get(s, ()) if more in known
        ]
        if base in known:
            _raise(terms, base, 1.0)
            for more in self.vocabulary.expand(word):
                _raise(terms, more, SHORT_SHARE)
            for more in (*SYNONYMS.get(base, ()), *SPLIT.get(word, ()), *translated):
                if more in known:
                    _raise(terms, more, SYNONYM_SHARE)
            return None
        pieces = [s for s in SPLIT.get(word, ()) if s in known]
        instead = translated or pieces or [s for s in SYNONYMS.get(base, ()) if s in known]
        if instead:
            for meant in instead:
                _raise(terms, meant, FOREIGN_SHARE)
            return None
        found = self.vocabulary.repair(word) if repair else None
        if found is None:
            _raise(terms, base, 1.0)  # lowers the share: a perfect match would have this word too
            return None
        for meant, share in found.words.items():
            _raise(terms, meant, share)
        return found.shown

    def lexical(self, query: Query) -> Scores:
        """Return the BM25 score of each matching slot as a share of the ideal score, 0..1."""
        worth = nlargest(_IDEAL_TERMS, (self._lexical.idf(t) * share for t, share in query.terms.items()))
        ideal = sum(worth) * (self._lexical.k1 + 1.0) * 0.8
        scores = self._lexical.scores(query.terms)
        return {slot: min(score / ideal, 1.0) for slot, score in scores.items()} if ideal > 0 else scores

    def letters(self, query: Query) -> Scores:
        """Return the cosine of the letter trigrams of the squashed query and each squashed name, 0..1."""
        trigrams_wanted = Counter(trigrams(query.squashed))
        total = len(self._norms)
        idf = {t: math.log((total + 1.0) / (self._letters.count(t) + 1.0)) + 1.0 for t in trigrams_wanted}
        sums: Scores = {}
        for trigram, frequency in trigrams_wanted.items():
            factor = frequency * idf[trigram] ** 2
            for slot, weight in self._letters.get(trigram).items():
                sums[slot] = sums.get(slot, 0.0) + factor * weight
        if not sums:
            return sums
        mean = math.sqrt(sum(value * value for value in idf.values()) / len(idf))
        norm = mean * math.sqrt(sum((n * idf[t]) ** 2 for t, n in trigrams_wanted.items()))
        norms = self._norms
        return {slot: min(value / (norm * norms[slot]), 1.0) for slot, value in sums.items()}


def embedding_texts(tool: Tool) -> tuple[tuple[str, float], ...]:
    """Return the texts that make a tool's vector, each with its weight.

    The first 100 characters of a description embed better than all of it; the name alone adds to that.
    """
    name = " ".join(raw_words(tool.name)) or tool.name
    return (f"{tool.backend}: {name}. {tool.description[:100]}", 1.0), (name, NAME_SHARE)


def _raise(terms: dict[str, float], term: str, weight: float) -> None:
    terms[term] = max(terms.get(term, 0.0), weight)


def _fields(tool: Tool) -> tuple[dict[str, float], list[str]]:
    """Return weighted term frequencies over all fields, and the words of the name."""
    named = words(tool.name)
    frequencies: dict[str, float] = {}
    texts = (
        (W_NAME, named),
        (W_DESCRIPTION, words(tool.description[:MAX_TEXT])),
        (W_BACKEND, words(tool.namespace or tool.backend)),
    )
    for weight, found in texts:
        for word in found:
            frequencies[word] = frequencies.get(word, 0.0) + weight
    for name, text in _parameters(tool.input_schema):
        for word in words(name):
            frequencies[word] = frequencies.get(word, 0.0) + W_PARAMETER
        for word in words(text):
            frequencies[word] = frequencies.get(word, 0.0) + W_PARAMETER_TEXT
    return frequencies, named


def _parameters(schema: Json) -> Iterator[tuple[str, str]]:
    """Yield name and text of each parameter; the members of an enum belong to the text."""
    properties: Any = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for index, (name, value) in enumerate(properties.items()):
        if index == _MAX_PARAMETERS:
            return
        text = value.get("description") if isinstance(value, Mapping) else None
        values = value.get("enum") if isinstance(value, Mapping) else None
        named = (
            " ".join(v for v in values[:_MAX_VALUES] if isinstance(v, str))
            if isinstance(values, list)
            else ""
        )
        yield str(name), f"{text[:500] if isinstance(text, str) else ''} {named[:_MAX_VALUE_CHARS]}"


def fuse(lexical: Scores, letters: Scores, meaning: Scores | None, allowed: AbstractSet[int]) -> Scores:
    """Add the calibrated signals of every slot that one of them matches."""
    near = meaning or {}
    scores = {slot: MEANING * value for slot, value in near.items() if value > MATCH_MEANING}
    for slot in allowed & (lexical.keys() | letters.keys()):
        words, name = lexical.get(slot, 0.0), letters.get(slot, 0.0)
        if words > MATCH_WORDS or name > MATCH_LETTERS or slot in scores:
            scores[slot] = words + LETTERS * name * name + MEANING * near.get(slot, 0.0)
    # Rare words beside a common one make every match weak, but no match would be no answer.
    return scores or {slot: words for slot, words in lexical.items() if slot in allowed}
