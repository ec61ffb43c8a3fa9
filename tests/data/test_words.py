# ruff: noqa: RUF001  (letters that look like Latin ones)
"""One definition of a word, for every script, and what in texts is none: markup, entities,
addresses."""

import itertools
import random
import unicodedata

import pytest

from tests.naming import check_names, naming
from vijax.app.plan.look import _text_column
from vijax.app.settings.sections import DocumentData
from vijax.data import TextSettings, prepare, read
from vijax.data.corpora.select import with_vocabulary
from vijax.data.reading.checks import DataError, Notes
from vijax.data.texts import words
from vijax.data.texts.language import detect_language
from vijax.data.texts.markup import plain, read_plain, remove_addresses
from vijax.data.texts.words import find_all_words, find_words, normalise, to_lower, word_finder

pytest.importorskip("regex")
ALL = TextSettings(min_df=1, max_df=1.0, stop_words=None)


def kept(text):
    return find_words(to_lower(normalise(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("किसान खेत में गेहूँ की फसल", ["किसान", "खेत", "में", "गेहूँ", "फसल"]),
        ("தமிழ் மொழி அரசு விவசாயிகள்", ["தமிழ்", "மொழி", "அரசு", "விவசாயிகள்"]),
        ("বাংলাদেশ সরকার কৃষকদের জন্য", ["বাংলাদেশ", "সরকার", "কৃষকদের", "জন্য"]),
        ("മലയാളം ഭാഷ കർഷകൻ", ["മലയാളം", "ഭാഷ", "കർഷകൻ"]),
        ("అక్షరము ಕನ್ನಡ ਪੰਜਾਬੀ ગુજરાતી සිංහල", ["అక్షరము", "ಕನ್ನಡ", "ਪੰਜਾਬੀ", "ગુજરાતી", "සිංහල"]),
        ("รัฐบาล กล่าว เมื่อ", ["รัฐบาล", "กล่าว", "เมื่อ"]),
        ("ကျောင်း ភាសា", ["ကျောင်း", "ភាសា"]),
        ("שָׁלוֹם עֲלֵיכֶם בֶּן", ["שָׁלוֹם", "עֲלֵיכֶם"]),  # points do not make a word longer
        ('ארה"ב ג\'ירפה "שלום"', ['ארה"ב', "ג'ירפה", "שלום"]),
        ("السَّلَامُ عَلَيْكُمْ", ["السَّلَامُ", "عَلَيْكُمْ"]),
        ("می\u200cخواهم کتاب\u200cها", ["می\u200cخواهم", "کتاب\u200cها"]),
        ("п'ять комп’ютер мʼята", ["п'ять", "комп'ютер", "м'ята"]),
        ("정부는 경제 것", ["정부는", "경제"]),  # a syllable is two letters
        ("ሰላም ቤት ለ", ["ሰላም", "ቤት"]),
        ("ẹ\u0300kọ\u0301 ọ̀rẹ́", ["ẹ\u0300kọ\u0301", "ọ\u0300rẹ\u0301"]),
        (
            "Don't l'amour col·lega NumPy2 x² Straße_x",
            ["don", "amour", "col·lega", "numpy", "straße"],
        ),
        ("İstanbul IRAK", ["istanbul", "irak"]),
        ("Donau\u00addampf \ufeffAnfang auf\u200clage", ["donaudampf", "anfang", "auflage"]),
    ],
)
def test_words_of_every_script_are_whole(text, expected):
    assert kept(text) == [unicodedata.normalize("NFC", word) for word in expected]
    assert kept(unicodedata.normalize("NFD", text)) == kept(text)


def test_the_quick_way_finds_the_words_of_the_grammar():
    rng = random.Random(0)
    latin = [
        chr(i) for i in itertools.chain(range(0x300), range(0x370, 0x400), range(0x1E00, 0x2040))
    ]
    cyrillic = [chr(i) for i in itertools.chain(range(0x100), range(0x400, 0x530))]
    texts = [
        normalise("".join(rng.choices(signs, k=20)))
        for signs in (latin, cyrillic)
        for _ in range(4000)
    ]
    quick = [text for text in texts if words._is_plain(text)]
    assert len(quick) > 1000
    for text in quick:
        assert find_words(text) == words._compile(words._WORD)(text)
        assert find_all_words(text) == words._compile(words._ANY_WORD)(text)


def test_a_corpus_of_marks(tmp_path):
    texts = ["किसान खेत में गेहूँ की फसल काटता है", "सरकार ने किसानों के लिए नई योजना शुरू की"] * 20
    corpus = read(texts, text=ALL)
    assert {"किसान", "खेत", "गेहूँ", "फसल", "काटता", "सरकार", "किसानों", "योजना", "शुरू"} <= {
        *corpus.vocabulary
    }
    shards = read(prepare(zip("ab" * 20, texts, strict=True), tmp_path / "shards", text=ALL))
    assert shards.vocabulary == corpus.vocabulary


def test_both_forms_of_an_accent_are_one_word():
    corpus = read(["Café", unicodedata.normalize("NFD", "café"), "thé"], text=ALL)
    assert corpus.vocabulary == ("café", "thé")
    fixed = read(
        ["café thé", "café"],
        vocabulary=[unicodedata.normalize("NFD", word) for word in ("café", "thé")],
    )
    assert fixed.word_counts().tolist() == [2, 1]
    assert with_vocabulary(corpus, [unicodedata.normalize("NFD", "café")]).num_tokens == 2


def test_a_pattern_of_the_user_has_marks_and_leaves_markup():
    corpus = read(
        ["<b>गेहूँ</b>", "गेहूँ ok"], text=TextSettings(token_pattern=r"\w+", stop_words=None, min_df=1)
    )
    assert corpus.vocabulary == ("b", "ok", "गेहूँ")
    assert corpus.notes[0].startswith(
        "The texts have HTML tags or entities, or addresses of the web or of e-mail, and"
    )
    assert word_finder(r"x(\d)")("x1 y2 x3") == ["1", "3"]
    assert word_finder("[^;]+")("one\n two;three") == ["one two", "three"]
    with pytest.raises(DataError, match=naming("token_pattern:", "2")):
        word_finder("(a)(b)")


# --- markup and addresses -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fish &amp; <b>chips</b>", "Fish & chips"),
        ("Stra&szlig;e, caf&#233;, &#x41;", "Straße, café, A"),
        ("&amp;lt;br /&amp;gt;twice", "twice"),
        ('<a href="http://x.org?a=1&amp;b=2" target=_blank>link</a>', "link"),
        ("<p>One<br>two</p><script>var a = 1 < 2;</script><!-- no -->three", "One two three"),
        ("<TEI><persName>Bob</persName></TEI>", "Bob"),
        ("<style>p {}</style ><td nowrap>x</td>", "p {} x"),
        ("a < b and c > d, x <y and z> w, List<String>, <unk> I <3 you", None),
        ("AT&T; R&D &nothing; &copy", None),
    ],
)
def test_markup_is_left_out_and_what_looks_like_it_is_not(text, expected):
    assert " ".join(plain(text).text.split()) == (text if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see http://t.co/abc… now", "see now"),
        ("(https://en.wikipedia.org/wiki/Foo_(bar)) next", "( ) next"),
        ("今天http://t.co/abc我们", "今天 我们"),
        ("www.example.com or pic.twitter.com/xyz", "or"),
        ("write me.you+x@a-b.co.uk.", "write ."),
        ("and/or km/h Amazon.com @name s.th/else", None),
    ],
)
def test_addresses_are_left_out(text, expected):
    assert " ".join(remove_addresses(text).split()) == (text if expected is None else expected)


def test_what_is_left_out_is_said():
    texts = [
        "Fish &amp; <b>chips</b> http://shop.org",
        "fish chips &amp; peas, ask@shop.org www.shop.org",
    ] * 2
    corpus = read(texts, text=ALL)
    assert corpus.vocabulary == ("ask", "chips", "fish", "peas")[1:]
    said = "\n".join(corpus.notes)
    assert (
        "HTML tags are no words: they are left out of the texts. (4 such, the first at document 1)"
        in said
    )
    assert "as the letters that they stand for. (4 such, the first at document 1)" in said
    check_names(said, "-mail", "6")
    assert corpus.texts[0] == "Fish & chips http://shop.org"
    assert read(["plain words", "plain things"], text=ALL).notes == ()


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<!--", "a.b-", "<script", "a.", "&", "(http://", "www.", "<b x=", "@a."]
)
def test_no_text_takes_for_ever(piece):
    text = piece * 20_000 + "@/"
    read_plain(text, Notes(), "x")
    remove_addresses(text)


# --- languages ------------------------------------------------------------------------------------
def test_one_stop_word_makes_no_language():
    texts = ["car, bus, sun", "bus car", "sun and car"] * 20
    corpus = read(texts, text=TextSettings(min_df=1, max_df=1.0))
    assert corpus.language == "english"
    assert "car" in corpus.vocabulary


def test_languages_whose_lists_have_quotes_or_a_wrong_encoding_are_found():
    pytest.importorskip("stop_words")
    assert detect_language(["אבל אני לא יודע אם הוא היה שם או היא גם כי זה מה יש"] * 3) == "hebrew"
    assert (
        detect_language(["किसान और सरकार ने कहा कि यह योजना उनके लिए है और वे इस पर विचार कर रहे हैं"] * 3)
        == "hindi"
    )


def test_init_finds_the_column_of_texts_in_any_script(tmp_path):
    (tmp_path / "t.csv").write_text(
        "name,body\nabc defg,किसान खेत में गेहूँ\nhij,सरकार ने किसानों के\n", encoding="utf-8"
    )
    assert _text_column(str(tmp_path / "t.csv"), DocumentData()) == "body"


def test_texts_without_a_word_are_an_error_in_the_words_of_either_interface(tmp_path, capsys):
    with pytest.raises(DataError, match=naming("2", "stop_words=None")):
        prepare([("a", "http://shop.org"), ("b", "of the")], tmp_path / "shards")
    pytest.importorskip("tyro")
    from vijax.app.cli import main

    (tmp_path / "t.txt").write_text("http://shop.org\nof the\n")
    assert (
        main(["fit", "lda", "--data", str(tmp_path / "t.txt"), "--out", str(tmp_path / "run")]) == 2
    )
    said = capsys.readouterr().err
    check_names(said, "--set", "'data.token_pattern=\\w+'", "data.stop_words")
