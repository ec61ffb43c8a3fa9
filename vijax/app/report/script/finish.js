// What is saved as CSV; the slider; links to topics; and the first look.
const files = {
  words: () => [
    ["topic", "rank", "word", "probability", "overall", `relevance at ${state.weight}`],
    ...read.topics.flatMap((topic) =>
      relevant(topic).map((row, i) => [
        topic.number,
        i + 1,
        row.word,
        row.probability.toPrecision(4),
        row.overall.toPrecision(4),
        row.relevance.toFixed(4),
      ]),
    ),
  ],
  topics: () => [
    ["topic", "name", "share", "coherence_npmi", "words"],
    ...inOrder().map((topic) => [
      topic.number,
      topic.name,
      topic.share,
      topic.coherence,
      leading(topic, IN_TABLE).join(" "),
    ]),
  ],
  documents: () => [
    ["document", "words", "topic", "share"],
    ...read.documents.titles.flatMap((title, i) =>
      pairs(read.documents.shares[i]).map(([k, share]) => [title, read.documents.sizes[i], k, share.toFixed(5)]),
    ),
  ],
  groups: () => {
    const group = read.groups[state.by];
    const rows = read.topics.flatMap((topic) =>
      sharesOf(group, topic.number).map((row) => [
        row.name,
        row.documents,
        topic.number,
        row.share.toFixed(5),
        row.low?.toFixed(5),
        row.high?.toFixed(5),
      ]),
    );
    return [[group.by, "documents", "topic", "share", "low", "high"], ...rows];
  },
};
for (const button of document.querySelectorAll("[data-save]")) {
  button.addEventListener("click", () => save(button.dataset.save, files[button.dataset.save]()));
}

function fillAll() {
  fillTopic();
  fillTable();
  fillCards();
  fillGroups();
  describeDiscs();
  for (const what of ["word", "document"]) if (find(`find-${what}`)?.value) fillFound(what);
}

let waiting = false;
find("relevance").addEventListener("input", (event) => {
  reweigh(Number(event.target.value));
  find("relevance-value").textContent = state.weight;
  if (!waiting)
    requestAnimationFrame(() => {
      waiting = false;
      fillAll();
    });
  waiting = true;
});

find("order").addEventListener("change", (event) => {
  state.order = event.target.value;
  find("slider").hidden = state.order !== "relevance";
  fillAll();
});

const linked = (text) => topics.get(Number(/^#topic-(\d+)$/.exec(text)?.[1] ?? NaN))?.number;
document.addEventListener("click", (event) => {
  const target = event.target.closest?.("a[href^='#topic-']"),
    k = target && linked(target.getAttribute("href"));
  if (k === undefined || k === null) return;
  event.preventDefault();
  history.pushState(null, "", `#topic-${k}`);
  choose(k);
  if (!target.closest(".map")) find("topic").scrollIntoView({ block: "nearest" });
});
window.addEventListener("popstate", () => {
  if (linked(location.hash) !== undefined) choose(linked(location.hash));
});

state.weight = Number(find("relevance").value);
state.order = find("order").value;
find("slider").hidden = state.order !== "relevance";
state.topic = linked(location.hash) ?? state.topic;
const has = { documents: read.documents !== null, groups: read.groups.length > 0 };
for (const part of document.querySelectorAll(".relevance, .search, #topic, #groups, .saves, #cards")) {
  part.hidden = has[part.dataset.needs] === false;
}
fillAll();
if (linked(location.hash) !== undefined) find("topic").scrollIntoView({ block: "nearest" });
