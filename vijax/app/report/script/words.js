// Relevance (Sievert and Shirley 2014, equation 1); logarithms are kept as whole numbers, with the sign turned.
const ranked = new Map();

function relevant(topic) {
  const key = `${topic.number} ${state.order} ${state.weight}`;
  if (!ranked.has(key)) {
    const rows = topic.words.map((place, i) => ({
      place,
      word: read.words[place],
      probability: Math.exp(-topic.logs[i] / read.fine),
      overall: Math.exp(-read.overall[place] / read.fine),
      relevance: ((1 - state.weight) * read.overall[place] - topic.logs[i]) / read.fine,
    }));
    const order = topic.orders[state.order];
    if (order && rows.length) ranked.set(key, order.map((i) => rows[i]));
    else {
      rows.sort((a, b) => b.relevance - a.relevance || a.place - b.place);
      ranked.set(key, rows.slice(0, read.shown));
    }
  }
  return ranked.get(key);
}

function reweigh(weight) {
  state.weight = weight;
  ranked.clear();
}

function leading(topic, count) {
  return relevant(topic)
    .slice(0, count)
    .map((row) => row.word);
}

function wordRow(topic, row, most) {
  // The whole bar: how frequent the word is; its dark part: how much of that is of this topic.
  const here = (topic.share ?? 0) * row.probability;
  const times =
    read.tokens === null ? "" : `, about ${Math.round(read.tokens * row.overall).toLocaleString("en")} times`;
  const said =
    `${row.word}: ${percent(row.probability)} of the words of the topic, ${percent(row.overall)} of all words${times}; ` +
    `${percent(Math.min(1, here / row.overall))} of its uses are of this topic`;
  return make(
    "li",
    { title: said },
    make("b", {}, row.word),
    bar(row.overall / most, here / most),
    make("span", { class: "number" }, percent(row.probability)),
  );
}

function wordList(topic, count) {
  const rows = relevant(topic).slice(0, count);
  const most = Math.max(...rows.map((row) => Math.max(row.overall, (topic.share ?? 0) * row.probability)));
  return make("ol", { class: "words" }, ...rows.map((row) => wordRow(topic, row, most)));
}
