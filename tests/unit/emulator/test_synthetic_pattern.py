"""Texts of regular expressions and grammars."""

import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm.emulator._synthetic_pattern import (
    PatternError,
    check_pattern,
    grammar_samples,
    samples,
)

_ATOMS = st.sampled_from(
    ["a", "é", ".", r"\d", r"\w", r"\s", r"\.", "[a-c]", "[^a-c]", r"[\d_]", "[]x]", r"\u0041"]
)
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(
            inner, st.sampled_from(["?", "*", "+", "{2}", "{1,3}", "{2,}", "{,2}", "*?", "+?"])
        ).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda pattern: f"(?i:{pattern})"),
    ),
    max_leaves=6,
)


@given(_PATTERNS)
def test_every_pattern_of_the_known_syntax_gets_a_whole_match(pattern: str) -> None:
    text = next(text for text in samples(f"^{pattern}$") if re.fullmatch(pattern, text))

    assert re.fullmatch(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("[0-9]{3}-[0-9]{2}", "000-00"),
        ("^[a-z]+$", "a"),
        ("(?i)yes|no", "yes"),
        (r"\x41\u{42}", "AB"),
        (r"\p{L}\d", "a1"),
        ("(?<year>[0-9]{4})", "0000"),
        # pydantic's pattern of a `Decimal`
        (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", "+01.1"),
    ],
)
def test_plain_short_texts_come_first(pattern: str, text: str) -> None:
    assert next(samples(pattern)) == text


def test_longer_texts_follow() -> None:
    texts = islice(samples("[a-z]+"), 3)

    assert list(texts) == ["a", "aa", "aaa"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(?=b)", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        ("[", "unclosed character class"),
        ("(a", "unclosed group"),
        ("a)", "unopened group"),
        ("*a", "repetition operator missing expression"),
        ("a\\", "incomplete escape sequence"),
    ],
)
def test_what_the_engine_does_not_take_is_named(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("grammar", "sentence"),
    [
        ('root ::= "yes" | "no"', "yes"),
        ('start: "a" b\nb: /[0-9]+/ | "z"', "a0"),
        ('root ::= "x" [a-c] (item ",")+\nitem ::= "1" | "2"', "xa1,"),
        ('root ::= "say \\"hi\\"\\n"', 'say "hi"\n'),
        # left recursion ends in the alternative without it
        ('root ::= root "+" term | term\nterm ::= [0-9] | "(" root ")"', "0+0+0"),
    ],
)
def test_sentences_of_a_grammar(grammar: str, sentence: str) -> None:
    assert sentence in islice(grammar_samples(grammar), 3)


def test_a_missing_rule_is_named() -> None:
    with pytest.raises(KeyError, match="missing"):
        grammar_samples("root ::= missing")
