// The topic that is chosen: its words, the topics like it, the documents that use it most.
// The words of a text in the colours of its three largest topics: p(topic | word, document) is proportional to the
// share of the word's uses that the topic has, times its share of the document, over its share of all words.
const TINTED = 3;
let lexicon = null;

function topicOfWord(place, shares) {
  const weights = pairs(read.uses[place]).map(([k, use]) => {
    const own = shares.find(([topic]) => topic === k);
    return [k, own ? (use * own[1]) / Math.max(topics.get(k).share ?? 0, 1e-9) : 0];
  });
  const best = weights.sort((a, b) => b[1] - a[1])[0];
  return best && best[1] > 0 ? best[0] : null;
}

function coloured(text, shares) {
  lexicon ??= new Map(read.words.map((word, place) => [plain(word), place]));
  const parts = text.split(/([\p{L}\p{M}\p{N}]+)/u);
  return parts.map((part, i) => {
    const place = i % 2 ? lexicon.get(plain(part)) : undefined;
    const k = place === undefined ? null : topicOfWord(place, shares);
    const rank = shares.slice(0, TINTED).findIndex(([topic]) => topic === k);
    if (k === null) return part;
    return make("mark", { class: rank < 0 ? "word-of" : `word-of tint-${rank}`, title: topics.get(k).label }, part);
  });
}

function documentItem(place, shown) {
  const { titles, excerpts, sizes } = read.documents;
  const shares = pairs(read.documents.shares[place]);
  const chips = shown.map(([k, share], rank) =>
    make(
      "a",
      { href: `#topic-${k}`, class: `chip tint-${rank}`, title: said(topics.get(k)) },
      `${topics.get(k).label} `,
      make("span", {}, percent(share, 0)),
    ),
  );
  return make(
    "li",
    { "data-document": place },
    make("strong", {}, titles[place]),
    make("span", { class: "note" }, ` ${sizes[place].toLocaleString("en")} words`),
    excerpts[place] ? make("p", {}, ...coloured(excerpts[place], shares)) : null,
    make("div", { class: "chips" }, ...chips),
  );
}

function alike(topic) {
  const rows = topic.alike.map(([k, distance]) =>
    make("li", {}, link(topics.get(k)), make("span", { class: "number" }, number(distance, 2))),
  );
  return rows.length
    ? [
        make("h4", {}, "Similar topics"),
        make(
          "p",
          { class: "note" },
          "Jensen-Shannon distance: 0 for equal topics, 1 for topics without a common word.",
        ),
        make("ol", { class: "alike" }, ...rows),
      ]
    : [];
}

function typical(topic) {
  const places = pairs(topic.documents);
  if (!places.length) return [];
  return [
    make("h4", {}, "Documents that use it most"),
    make(
      "ol",
      { class: "documents" },
      ...places.map(([place]) => documentItem(place, pairs(read.documents.shares[place]).slice(0, 3))),
    ),
  ];
}

function fillTopic() {
  const topic = topics.get(state.topic);
  const coherence = topic.coherence === null ? "" : ` · coherence ${number(topic.coherence, 2)}`;
  const legend = make(
    "p",
    { class: "note" },
    make("i", { class: "key" }),
    " all uses of the word, ",
    make("i", { class: "key part" }),
    " those of this topic; numbers are per cent of the words of the topic",
  );
  find("topic").replaceChildren(
    make(
      "header",
      {},
      make("h3", {}, topic.label),
      make("span", {}, `topic ${topic.number} · ${percent(topic.share ?? 0, 1)} of all words${coherence}`),
    ),
    legend,
    make("div", { class: "scroll-words" }, wordList(topic, read.shown)),
    ...alike(topic),
    make("div", { class: "scroll-documents" }, ...typical(topic)),
  );
  mark();
}

function choose(k) {
  state.topic = k;
  fillTopic();
  fillGroups();
}
