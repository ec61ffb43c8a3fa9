// The topic that is chosen: its words, the topics like it, the documents that use it most.
function documentItem(place, shares) {
  const { titles, excerpts, sizes } = read.documents;
  const chips = shares.map(([k, share]) =>
    make(
      "a",
      { href: `#topic-${k}`, class: "chip", title: said(topics.get(k)) },
      `${topics.get(k).label} `,
      make("span", {}, percent(share, 0)),
    ),
  );
  return make(
    "li",
    { "data-document": place },
    make("strong", {}, titles[place]),
    make("span", { class: "note" }, ` ${sizes[place].toLocaleString("en")} words`),
    excerpts[place] ? make("p", {}, excerpts[place]) : null,
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
