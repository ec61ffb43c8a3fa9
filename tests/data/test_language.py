"""Stop words follow the language of the text, which is found, told and overruled; text without
spaces is refused."""

import dataclasses
import sys

import pytest

from tests.naming import naming
from vijax.data import Corpus, TextSettings, read
from vijax.data.corpora.select import split_over_seen_words, with_vocabulary
from vijax.data.reading.checks import DataError, Notes
from vijax.data.texts.language import check_spaces, detect_language, first_texts

pytest.importorskip("stop_words")

SENTENCES = {
    "english": "The government said that it would not change its plans for the new railway, "
    "although many have asked.",
    "german": "Die Regierung sagte, dass sie ihre Pläne für die neue Bahn nicht ändern werde, "
    "obwohl viele es wollen.",
    "french": "Le gouvernement a dit qu'il ne changerait pas ses projets pour la nouvelle ligne, "
    "mais on l'a prié.",
    "spanish": "El gobierno dijo que no cambiaría sus planes para el nuevo tren, aunque muchos lo "
    "han pedido.",
    "portuguese": "O governo disse que não vai mudar os seus planos para a nova linha, embora "
    "muitas pessoas o peçam.",
    "dutch": "De regering zei dat zij haar plannen voor het nieuwe spoor niet zal veranderen, "
    "hoewel men het vraagt.",
    "czech": "Vláda uvedla, že své plány na novou trať nezmění, i když mnoho lidí, kteří tu jsou, "
    "o to žádalo.",
    "russian": "Правительство сказало, что оно не будет менять свои планы, хотя многие люди, "
    "которые здесь, просили.",
}
ALL = TextSettings(min_df=1, max_df=1.0)
CHINESE = "今天我们在北京参加了一个关于人工智能的会议"


@pytest.mark.parametrize("language", SENTENCES)
def test_a_language_is_found_by_its_stop_words(language):
    corpus = read([SENTENCES[language]] * 3, text=ALL)
    assert corpus.language == language == detect_language([SENTENCES[language]] * 3)
    assert corpus.notes == (
        f"By its stop words, which are left out, the text is in {language.capitalize()}. If not, "
        "set language.",
    )


def test_the_stop_words_of_the_language_are_left_out():
    texts = [SENTENCES["german"]] * 3
    assert not {"die", "für", "nicht"} & {*read(texts, text=ALL).vocabulary}
    assert "regierung" in read(texts, text=ALL).vocabulary
    english = read(texts, text=dataclasses.replace(ALL, stop_words="english"))
    assert {"nicht", "dass"} <= {*english.vocabulary}
    assert (english.notes, english.language) == ((), "")


@pytest.mark.parametrize("name", ["german", "de"])
def test_a_language_that_is_said_goes_before_the_one_that_is_found(name):
    corpus = read([SENTENCES["english"]] * 3, text=dataclasses.replace(ALL, language=name))
    assert "that" in corpus.vocabulary
    assert (corpus.notes, corpus.language) == ((), name)


def test_wrong_settings_of_language_are_named():
    texts = [SENTENCES["english"]]
    with pytest.raises(DataError, match=naming("language:", "'klingon'")):
        read(texts, text=dataclasses.replace(ALL, language="klingon"))
    with pytest.raises(DataError, match=naming("language:", "stop_words", "'english'")):
        read(texts, text=dataclasses.replace(ALL, language="german", stop_words="english"))


def test_where_no_language_is_found_english_stop_words_are_left_out_and_this_is_said(monkeypatch):
    corpus = read(
        ["alpha beta the gamma delta epsilon zeta theta kappa lambda omega"] * 2, text=ALL
    )
    assert "the" not in corpus.vocabulary
    assert corpus.language == "english"
    assert corpus.notes[0].startswith(
        "The language of the text was not found by its stop words, and those of English"
    )
    monkeypatch.setitem(sys.modules, "stop_words", None)
    notes = read([SENTENCES["german"]] * 3, text=ALL).notes
    assert notes[0].startswith(
        "The language of the text was not looked for, and English stop words are left out: stop_"
    )


def test_words_of_a_given_vocabulary_are_no_stop_words():
    corpus = read([SENTENCES["german"]] * 3, vocabulary=["nicht", "regierung"], text=ALL)
    assert corpus.word_counts().tolist() == [3, 3]


def test_the_language_stays_with_the_corpus(tmp_path):
    corpus = read([SENTENCES["german"]] * 20, text=ALL, folder=tmp_path / "disk")
    parts = [
        corpus[:3],
        *split_over_seen_words(corpus, 0.5, 0),
        with_vocabulary(corpus, ["regierung"]),
    ]
    parts += [Corpus.open(corpus.save(tmp_path / "again"))]
    assert {part.language for part in parts} == {"german"}
    (tmp_path / "again" / "meta.json").write_text(
        '{"num_documents": 20, "vocab_size": 1, "notes": [], "language": 3}'
    )
    with pytest.raises(DataError, match="numbers and notes"):
        Corpus.open(tmp_path / "again")


def test_no_more_than_the_first_documents_are_looked_at():
    taken = []
    pairs = ((str(i), "word " * 20_000) for i in range(100) if taken.append(i) is None)
    first, whole = first_texts(pairs)
    assert (len(first), len(taken)) == (3, 3)
    assert len([*whole]) == 100


# --- text without spaces --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        CHINESE,
        "東京で開かれた会議では多くの専門家が話しました",
        "รัฐบาลกล่าวเมื่อวันจันทร์ว่าจะไม่เปลี่ยนแผนสำหรับทางรถไฟสายใหม่",
    ],
)
def test_text_without_spaces_between_words_is_refused_with_the_remedy(text, tmp_path):
    (tmp_path / "t.txt").write_text(f"{text}\n{text}", encoding="utf-8")
    with pytest.raises(
        DataError,
        match=naming("t.txt:", "token_pattern"),
    ):
        read(tmp_path / "t.txt", text=ALL)


def test_words_with_spaces_between_them_are_read():
    words = ["今天", "我们", "在", "北京", "参加", "会议"]
    corpus = read(
        [" ".join(words)] * 3, text=dataclasses.replace(ALL, token_pattern=r"\S+", stop_words=None)
    )
    assert {*corpus.vocabulary} == {*words}
    notes = Notes()
    check_spaces([" ".join(words)], "x", notes)
    assert notes.texts()[0].startswith(
        "Words of one or two letters are left out, which are many here"
    )


def test_a_little_text_without_spaces_is_noted():
    notes = Notes()
    check_spaces([SENTENCES["english"]] * 2 + [CHINESE], "x", notes)
    (note,) = notes.texts()
    assert "Chinese or Japanese without spaces, and its clauses are taken for words" in note
    assert CHINESE[:20] in note
    notes = Notes()
    check_spaces(
        ["정부는 월요일에 새로운 철도 계획을 변경하지 않을 것이라고 밝혔다", *SENTENCES.values()],
        "x",
        notes,
    )
    assert notes.texts() == ()
