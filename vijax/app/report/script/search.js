// Words and documents, found by what they contain: whole words first, then beginnings, then what is inside.
const MOST_FOUND = { word: 8, document: 20 };
const known = {};

function searchable(what) {
  if (!known[what]) {
    const { titles, excerpts } = read.documents ?? {};
    known[what] =
      what === "word" ? read.words.map(plain) : titles.map((title, i) => plain(`${title} ${excerpts[i] ?? ""}`));
  }
  return known[what];
}

function matches(what) {
  const wanted = plain(find(`find-${what}`).value.trim());
  if (!wanted) return null;
  const found = [];
  searchable(what).forEach((text, place) => {
    const at = text.indexOf(wanted);
    if (at >= 0) found.push([text === wanted ? 0 : at === 0 ? 1 : 2, place]);
  });
  return found.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, place]) => place);
}

function wordUses(place) {
  const overall = Math.exp(-read.overall[place] / read.fine);
  const rows = pairs(read.uses[place]).map(([k, share]) =>
    make(
      "li",
      { "data-topic-of-word": k },
      link(topics.get(k)),
      bar(share),
      make("span", { class: "number" }, percent(share, 0)),
    ),
  );
  return make(
    "div",
    { class: "word" },
    make("h4", {}, read.words[place], make("span", { class: "note" }, ` ${percent(overall)} of all words`)),
    make("ol", { class: "alike" }, ...rows),
  );
}

function fillFound(what) {
  const found = matches(what),
    most = MOST_FOUND[what],
    into = find(`found-${what}`);
  if (found === null) return into.replaceChildren();
  if (!found.length) return into.replaceChildren(make("p", { class: "note" }, `No ${what} of this page has that.`));
  const shown = found.slice(0, most);
  const items =
    what === "word"
      ? shown.map(wordUses)
      : [
          make(
            "ol",
            { class: "documents" },
            ...shown.map((place) => documentItem(place, pairs(read.documents.shares[place]))),
          ),
        ];
  const rest =
    found.length > most
      ? make("p", { class: "note" }, `And ${(found.length - most).toLocaleString("en")} more.`)
      : null;
  return into.replaceChildren(...items, ...(rest ? [rest] : []));
}

for (const what of ["word", "document"]) find(`find-${what}`)?.addEventListener("input", () => fillFound(what));
