// The table of all topics, in the order of any of its columns, and their words as bars.
const IN_TABLE = 8,
  IN_CARD = 12;

function inOrder() {
  const value = (topic) => topic[state.sort] ?? -Infinity;
  const sign = state.down ? -1 : 1;
  const some = read.topics.filter((topic) => topic.words.length);
  return some.sort((a, b) => sign * (value(a) - value(b)) || a.number - b.number);
}

function order() {
  const body = document.querySelector("table.topics tbody");
  body.append(...inOrder().map((topic) => body.querySelector(`[data-topic="${topic.number}"]`)));
  for (const button of document.querySelectorAll("[data-sort]")) {
    const how = button.dataset.sort !== state.sort ? "none" : state.down ? "descending" : "ascending";
    button.parentElement.setAttribute("aria-sort", how);
  }
  fillCards();
}

function fillTable() {
  for (const row of document.querySelectorAll("tr[data-topic]")) {
    const topic = topics.get(Number(row.dataset.topic));
    row.querySelector(".leading").textContent = leading(topic, IN_TABLE).join(", ");
  }
}

function card(topic) {
  const head = make(
    "header",
    {},
    make("h3", {}, link(topic, topic.label)),
    make("span", {}, `topic ${topic.number} · ${percent(topic.share ?? 0, 1)}`),
  );
  return make("article", { class: "card topic", "data-card": topic.number }, head, wordList(topic, IN_CARD));
}

function fillCards() {
  const cards = find("cards");
  if (cards.open) cards.querySelector("div").replaceChildren(...inOrder().map(card));
}

for (const button of document.querySelectorAll("[data-sort]")) {
  button.addEventListener("click", () => {
    const same = state.sort === button.dataset.sort;
    state.down = same ? !state.down : button.dataset.sort !== "number";
    state.sort = button.dataset.sort;
    order();
  });
}
find("cards").addEventListener("toggle", fillCards);
