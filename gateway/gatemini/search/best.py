"""The default ranking: fielded words, names letter by letter, meaning; added as calibrated scores.

    score = words^2 + letters^2 + 0.8 * meaning        (words + letters^2 where there is no embedder)

words: BM25 over weighted fields divided by what a perfect match of the query's rarest terms would score;
letters: cosine of letter trigrams of the squashed tool name; meaning: cosine of sentence embeddings, where an
embedder is present. Every signal lies in 0..1, so they can be added without ranks; docs/concepts/discovery.md
has each one's ablation. Above: `index.py`. Below: `bm25.py`, `repair.py`, `words.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatemini.model import Json, Tool
from gatemini.search.bm25 import Bm25
from gatemini.search.lexicon import FOREIGN_STOP_WORDS, SYNONYMS, foreign, foreign_run
from gatemini.search.postings import STEP, Floats, Postings
from gatemini.search.ranked import Ranked
from gatemini.search.repair import Vocabulary
from gatemini.search.words import (
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

W_NAME, W_DESCRIPTION, W_BACKEND, W_PARAMETER, W_PARAMETER_TEXT = 3.0, 1.0, 1.5, 0.5, 0.3
LETTERS, MEANING = 1.0, 0.8
NAME_SHARE = 0.5
"""Share of the name's own vector in a tool's vector."""
MATCH_WORDS, MATCH_LETTERS, MATCH_MEANING = 0.02, 0.3, 0.15
"""Below all of these a tool is no match at all and is not counted."""
MATCH_SHARE = 0.03
"""Nor is one that has less than this share of the best score."""
_IDEAL_TERMS = 6
SHORT_SHARE, SYNONYM_SHARE, FOREIGN_SHARE = 0.6, 0.5, 0.8
"""Shares of a word's weight: its long form, a synonym (both beside the word itself), a translation in its place."""
_MAX_PARAMETERS = 60
_MAX_SQUASHED = 60
_MAX_TERMS = 60
_SHORTEST_JOINED = 5


@dataclass(frozen=True, slots=True)
class Query:
    """A query as the ranking reads it."""

    terms: dict[str, float]
    squashed: str
    mended: dict[str, str] = field(default_factory=dict)


class BestRanker:
    """Signals of the default ranking, per slot."""

    def __init__(self) -> None:
        self._lexical = Bm25()
        self._names = Postings()
        self._name_words: Counter[str] = Counter()
        self._letters = Postings()
        self._letter_norms: Floats = np.zeros(0, dtype=np.float32)
        self._held: dict[int, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {}
        self.vocabulary = Vocabulary(self._lexical.postings.count, lambda w: self._name_words[w])

    def add(self, slot: int, tool: Tool) -> None:
        frequencies, named = _fields(tool)
        letters = Counter(trigrams(squash(tool.name)[:_MAX_SQUASHED]))
        fresh = self._lexical.add(slot, frequencies)
        self.vocabulary.add(fresh, raw_words(f"{tool.name} {tool.description[:MAX_TEXT]}") if fresh else ())
        self._letters.add(slot, {t: float(n) for t, n in letters.items()})
        if slot >= len(self._letter_norms):
            grown = np.ones(max(64, (slot + 1) * 3 // 2), dtype=np.float32)
            grown[: len(self._letter_norms)] = self._letter_norms
            self._letter_norms = grown
        self._letter_norms[slot] = max(1.0, float(sum(n * n for n in letters.values()))) ** 0.5
        self._name_words.update(named)
        self._held[slot] = (tuple(frequencies), tuple(letters), tuple(named))

    def remove(self, slots: Sequence[int], capacity: int) -> Iterator[None]:
        """Take tools out, in steps: those that step may search in between, and add nothing before the last."""
        terms: set[str] = set()
        letters: set[str] = set()
        for number, slot in enumerate(slots, start=1):
            held, windows, named = self._held.pop(slot)
            terms.update(held)
            letters.update(windows)
            self._name_words.subtract(named)
            for word in named:
                if self._name_words[word] <= 0:
                    del self._name_words[word]
            if number % STEP == 0:
                yield
        for lost in self._lexical.remove(slots, terms):
            self.vocabulary.remove(lost)
            yield
        gone = np.zeros(capacity, dtype=np.bool_)
        gone[list(slots)] = True
        for _ in self._letters.remove_in_steps(gone, letters):
            yield

    def rank(self, text: str, allowed: NDArray[np.bool_], meaning: Floats | None, limit: int) -> Ranked:
        query = self.read(text)
        capacity = len(allowed)
        lexical = self.lexical(query, capacity)
        letters = self.letters(query, capacity)
        scores = fuse(lexical, letters, meaning)
        matched = allowed & ((lexical > MATCH_WORDS) | (letters > MATCH_LETTERS))
        signals = {"words": lexical, "letters": letters}
        if meaning is not None:
            matched |= allowed & (meaning > MATCH_MEANING)
            signals["meaning"] = meaning
        scores = np.where(matched, scores, 0.0).astype(np.float32)
        share = MATCH_SHARE if meaning is not None else MATCH_SHARE**0.5
        scores[scores < share * np.max(scores, initial=0.0)] = 0.0
        tier = "best" if matched.any() else "none"
        mended = " ".join(query.mended.get(w, w) for w in raw_words(text)) if query.mended else None
        return Ranked(scores, tier, mended if matched.any() else None, signals, tuple(query.terms))

    def read(self, text: str) -> Query:
        """Words of the query with weights: unknown ones mended, known ones widened by what tools say instead."""
        spoken = parts(text)
        named = proper_names(text)
        telling = [w for w in spoken if w not in STOP_WORDS and w not in FOREIGN_STOP_WORDS]
        terms: dict[str, float] = {}
        mended: dict[str, str] = {}
        whole = self._joined(spoken)
        for word in dict.fromkeys(telling):
            if len(terms) >= _MAX_TERMS:
                break
            if word in whole:
                _raise(terms, whole[word], 1.0)
                if stem(word) not in self._lexical.postings:
                    continue  # half a word (`e-mail`) means nothing by itself
            if is_unspaced(word):
                self._read_run(word, terms)
            else:
                shown = self._read_word(word, terms, mend=word not in named)
                if shown is not None:
                    mended[word] = shown
        return Query(terms, squash(" ".join(telling or spoken))[:_MAX_SQUASHED], mended)

    def _joined(self, spoken: Sequence[str]) -> dict[str, str]:
        """Words that tools write as one (`time zone`, `e-mail`), by each of their halves."""
        whole: dict[str, str] = {}
        for first, second in pairwise(spoken[:_MAX_TERMS]):
            made = first + second
            said = first not in STOP_WORDS and second not in STOP_WORDS
            if said and len(made) >= _SHORTEST_JOINED and made.isascii() and made.isalpha():
                term = stem(made)
                if term in self._lexical.postings:
                    whole[first] = whole[second] = term
        return whole

    def _read_run(self, run: str, terms: dict[str, float]) -> None:
        known = self._lexical.postings
        for pair in pairs(run):
            if pair in known:
                _raise(terms, pair, 1.0)
        for meant in foreign_run(run):
            _raise(terms, meant, FOREIGN_SHARE)

    def _read_word(self, word: str, terms: dict[str, float], *, mend: bool) -> str | None:
        """Put a word's terms in; how it was mended, if a person should see that."""
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
            for more in (*SYNONYMS.get(base, ()), *translated):
                if more in known:
                    _raise(terms, more, SYNONYM_SHARE)
            return None
        if translated:
            for meant in translated:
                _raise(terms, meant, FOREIGN_SHARE)
            return None
        said_instead = [s for s in SYNONYMS.get(base, ()) if s in known]
        if said_instead:
            for meant in said_instead:
                _raise(terms, meant, FOREIGN_SHARE)
            return None
        found = self.vocabulary.mend(word) if mend else None
        if found is None:
            _raise(terms, base, 1.0)  # still counts in what a perfect match would have
            return None
        for meant, share in found.words.items():
            _raise(terms, meant, share)
            for more in SYNONYMS.get(meant, ()):
                if more in known:
                    _raise(terms, more, share * SYNONYM_SHARE)
        return found.shown

    def lexical(self, query: Query, capacity: int) -> Floats:
        """BM25 of every slot as a share of the ideal, 0..1."""
        if not query.terms or not self._lexical.count:
            return np.zeros(capacity, dtype=np.float32)
        scores = self._lexical.scores(query.terms, capacity)
        terms = list(query.terms)
        shares = np.fromiter(query.terms.values(), dtype=np.float32, count=len(terms))
        worth = np.sort(self._lexical.idf(terms) * shares)[::-1][:_IDEAL_TERMS]
        ideal = float(worth.sum()) * (self._lexical.k1 + 1.0) * 0.8
        if ideal <= 0:
            return scores
        share: Floats = np.minimum(scores / ideal, 1.0).astype(np.float32)
        return share

    def letters(self, query: Query, capacity: int) -> Floats:
        """Likeness of the squashed query and the squashed name, 0..1."""
        asked = Counter(trigrams(query.squashed))
        if not asked or not self._held:
            return np.zeros(capacity, dtype=np.float32)
        terms = list(asked)
        found = self._letters.gather(terms)
        if not len(found.slots):
            return np.zeros(capacity, dtype=np.float32)
        total = len(self._held)
        idf = np.log((total + 1.0) / (found.counts + 1.0)) + 1.0
        frequency = np.fromiter(asked.values(), dtype=np.float32, count=len(terms))
        mean = float(np.sqrt(np.mean(idf * idf)))
        norm = float(np.sqrt(np.sum((frequency * idf) ** 2)))
        parts = (frequency * idf * idf)[found.which] * found.weights
        scores = np.bincount(found.slots, weights=parts, minlength=capacity)[:capacity]
        return np.minimum(scores / (norm * mean * self._letter_norms[:capacity]), 1.0).astype(np.float32)


def embedding_texts(tool: Tool) -> tuple[tuple[str, float], ...]:
    """What is embedded for a tool: texts with their shares in its vector.

    The first 100 characters of a description embed better than all of it, and the name alone once more.
    """
    name = " ".join(raw_words(tool.name)) or tool.name
    return (f"{tool.backend}: {name}. {tool.description[:100]}", 1.0), (name, NAME_SHARE)


def _raise(terms: dict[str, float], term: str, weight: float) -> None:
    terms[term] = max(terms.get(term, 0.0), weight)


def _fields(tool: Tool) -> tuple[dict[str, float], list[str]]:
    """Weighted term frequencies over all fields, and the words of the name."""
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
    properties: Any = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for index, (name, value) in enumerate(properties.items()):
        if index == _MAX_PARAMETERS:
            return
        text = value.get("description") if isinstance(value, Mapping) else None
        yield str(name), text[:500] if isinstance(text, str) else ""


def fuse(lexical: Floats, letters: Floats, meaning: Floats | None) -> Floats:
    """The calibrated signals as one score.

    Squared, a weak match of words gives way to meaning; without meaning there is nothing it should give way to.
    """
    if meaning is None:
        return (lexical + LETTERS * letters * letters).astype(np.float32)
    return (lexical * lexical + LETTERS * letters * letters + MEANING * np.maximum(meaning, 0.0)).astype(
        np.float32
    )
