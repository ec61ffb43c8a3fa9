// Topics by group and over time: the topic that is chosen, with intervals, and the largest topics of each group.
const LARGEST = 4,
  WIDE = 560,
  HIGH = 220,
  LEFT = 46,
  BELOW = 30;

function sharesOf(group, k) {
  return group.names.map((name, g) => {
    const share = group.share[g][k] / read.whole;
    const error = group.error[g][k] === null ? null : (1.645 * group.error[g][k]) / read.whole;
    const low = error === null ? null : Math.max(0, share - error),
      high = error === null ? null : Math.min(1, share + error);
    return { name, share, low, high, documents: group.documents[g] };
  });
}

function tell(row) {
  const interval = row.low === null ? "" : ` (${percent(row.low)} to ${percent(row.high)})`;
  return `${row.name}: ${percent(row.share)}${interval}, ${row.documents.toLocaleString("en")} documents`;
}

function niceMarks(top) {
  // Three or so round numbers from 0 on.
  const size = 10 ** Math.floor(Math.log10(top / 3)),
    step = [1, 2, 5, 10].find((m) => m * size >= top / 3) * size;
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => i * step);
}

function inTime(rows) {
  const top = Math.max(...rows.map((row) => row.high ?? row.share), 1e-6) * 1.05;
  const x = (i) => LEFT + (WIDE - LEFT - 10) * (rows.length > 1 ? i / (rows.length - 1) : 0.5);
  const y = (share) => HIGH - BELOW - ((HIGH - BELOW - 8) * share) / top;
  const at = (i, share) => `${x(i).toFixed(1)},${y(share).toFixed(1)}`;
  const drawn = niceMarks(top).flatMap((mark) => [
    make("line", { class: "grid", x1: LEFT, x2: WIDE - 10, y1: y(mark), y2: y(mark) }),
    make(
      "text",
      { class: "tick", x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" },
      `${Number((100 * mark).toPrecision(2))} %`,
    ),
  ]);
  const upper = rows.map((row, i) => at(i, row.high ?? row.share)),
    lower = rows.map((row, i) => at(i, row.low ?? row.share));
  drawn.push(
    make("path", { class: "band band-0", d: `M${[...upper, ...lower.reverse()].join("L")}Z` }),
    make("path", { class: "curve curve-0", d: `M${rows.map((row, i) => at(i, row.share)).join("L")}` }),
  );
  const every = Math.ceil(rows.length / 7);
  rows.forEach((row, i) => {
    drawn.push(
      make("circle", { class: "mark mark-0", cx: x(i), cy: y(row.share), r: 3 }, make("title", {}, tell(row))),
    );
    if (i % every === 0)
      drawn.push(make("text", { class: "tick", x: x(i), y: HIGH - 8, "text-anchor": "middle" }, row.name));
  });
  return make(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": "share over time" },
    ...drawn,
  );
}

function byGroup(rows) {
  const most = Math.max(...rows.map((row) => row.high ?? row.share), 1e-6);
  return make(
    "ol",
    { class: "by" },
    ...rows.map((row) => {
      const drawn = bar(row.share / most);
      if (row.low !== null) {
        const whisker = make("u");
        whisker.style.left = `${(100 * row.low) / most}%`;
        whisker.style.width = `${(100 * (row.high - row.low)) / most}%`;
        drawn.append(whisker);
      }
      return make(
        "li",
        { title: tell(row) },
        make("b", {}, row.name),
        drawn,
        make("span", { class: "number" }, percent(row.share)),
      );
    }),
  );
}

function largest(group) {
  const rows = group.names.map((name, g) => {
    const order = group.share[g]
      .map((share, k) => [k, share / read.whole])
      .filter(([k]) => topics.get(k).words.length)
      .sort((a, b) => b[1] - a[1])
      .slice(0, LARGEST);
    const chips = order.map(([k, share]) =>
      make(
        "a",
        { href: `#topic-${k}`, class: "chip" },
        `${topics.get(k).label} `,
        make("span", {}, percent(share, 0)),
      ),
    );
    return make(
      "tr",
      {},
      make("td", {}, name),
      make("td", { class: "number" }, group.documents[g].toLocaleString("en")),
      make("td", {}, make("div", { class: "chips" }, ...chips)),
    );
  });
  const head = make(
    "tr",
    {},
    make("th", {}, group.by),
    make("th", { class: "number" }, "documents"),
    make("th", {}, "largest topics"),
  );
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function fillGroups() {
  const group = read.groups[state.by];
  if (!group) return;
  const topic = topics.get(state.topic),
    rows = sharesOf(group, topic.number);
  const title = make("h4", {}, `Topic ${topic.number}, ${topic.label}`);
  const chart = make(
    "div",
    {},
    title,
    group.time && rows.length > 1 ? inTime(rows.filter((row) => row.name !== "(none)")) : byGroup(rows),
  );
  find("by-group").replaceChildren(make("div", { class: "pair" }, chart, largest(group)));
}

find("by")?.addEventListener("change", (event) => {
  state.by = Number(event.target.value);
  fillGroups();
});
