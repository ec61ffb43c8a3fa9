// The map: what a disc says when it is pointed at or reached by the keyboard, and which one is chosen.
const discs = new Map();
for (const disc of document.querySelectorAll(".map a")) discs.set(Number(disc.getAttribute("href").slice(7)), disc);

function said(topic) {
  const name = topic.name ? ` (${topic.name})` : "";
  return `Topic ${topic.number}${name}, ${percent(topic.share ?? 0, 1)}: ${leading(topic, 8).join(", ")}`;
}

function describeDiscs() {
  for (const [k, disc] of discs) {
    disc.setAttribute("aria-label", said(topics.get(k)));
    disc.querySelector("title").textContent = said(topics.get(k));
  }
}

function mark() {
  for (const [k, disc] of discs) disc.classList.toggle("chosen", k === state.topic);
  for (const row of document.querySelectorAll("tr[data-topic]")) {
    row.classList.toggle("chosen", Number(row.dataset.topic) === state.topic);
  }
}

for (const [k, disc] of discs) {
  for (const kind of ["mouseenter", "focus"]) {
    disc.addEventListener(kind, () => {
      find("pointed").textContent = said(topics.get(k));
    });
  }
}
