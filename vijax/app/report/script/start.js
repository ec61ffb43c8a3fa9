// What the page embeds, and how elements are made: text is always text, whatever it says.
const read = JSON.parse(document.getElementById("explored").textContent);
const topics = new Map(read.topics.map((topic) => [topic.number, topic]));
const state = { weight: 0.6, order: "relevance", topic: read.topics[0].number, by: 0, sort: "share", down: true };
const DRAWING = document.querySelector(".map").namespaceURI;
const find = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const drawn = ["svg", "path", "line", "text", "circle", "title"].includes(tag);
  const made = drawn ? document.createElementNS(DRAWING, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

function pairs(flat) {
  const found = [];
  for (let i = 0; i < flat.length; i += 2) found.push([flat[i], flat[i + 1] / read.whole]);
  return found;
}

function percent(share, digits = null) {
  const value = 100 * share;
  return `${value.toFixed(digits ?? (value >= 9.95 ? 0 : value >= 0.995 ? 1 : 2))} %`;
}

function number(value, digits) {
  return value.toFixed(digits).replace("-", "\u2212");
}

function bar(share, part = null) {
  const inner = make("i");
  inner.style.width = `${(100 * Math.min(1, share)).toFixed(1)}%`;
  if (part === null) return make("span", { class: "bar" }, inner);
  const own = make("i", { class: "part" });
  own.style.width = `${(100 * Math.min(1, part)).toFixed(1)}%`;
  return make("span", { class: "bar two" }, inner, own);
}

function link(topic, text = null) {
  return make("a", { href: `#topic-${topic.number}`, title: topic.label }, text ?? `${topic.number} ${topic.label}`);
}

function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

// As `guard_formula` of vijax/app/drawing/exports.py: what a spreadsheet would run gets a single quote in front.
function quoted(text) {
  const formula = /^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
  const number = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
  return formula.test(text) && !number.test(text) ? `'${text}` : text;
}

function csv(rows) {
  const cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => row.map((value) => cell(quoted(String(value ?? "")))).join(",")).join("\n") + "\n";
}

function save(name, rows) {
  const text = csv(rows);
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href: url, download: `${read.name}_${name}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
