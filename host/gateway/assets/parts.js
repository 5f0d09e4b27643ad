// Elements of the page. Text is set as text only: names of tools and clients are untrusted.

/** Creates an element. Attributes that begin with `on` are listeners; false leaves one out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function heading(title, note) {
  return el("div", { class: "heading" }, el("h1", {}, title), note && el("p", { class: "note" }, note));
}

export function section(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

/** A number with its label, in a list of tiles. */
export function tile(label, value, note, kind = "") {
  return el("div", { class: `tile ${kind}` }, el("dt", {}, label), el("dd", {}, el("strong", {}, value), note && el("span", { class: "note" }, note)));
}

/** The state of a view without data: what is missing, and what to do. */
export function empty(title, ...text) {
  return el("div", { class: "empty" }, el("p", { class: "title" }, title), el("p", {}, ...text));
}

/** A link to a view with parameters. */
export function link(text, view, parameters = {}, more = {}) {
  return el("a", { href: `#/${view}?${new URLSearchParams(parameters)}`, ...more }, text);
}

const sorts = new Map();

/**
 * A table. A column has a `title`, a `value` to sort by and optionally `show` for its cell; `text`
 * aligns it left, and `minor` hides it on narrow screens. A click on a title sorts by it.
 */
export function table(id, caption, columns, rows, first = 0) {
  const state = sorts.get(id) ?? { column: first, descending: columns[first].newest ?? !columns[first].text };
  sorts.set(id, state);
  const body = el("tbody");
  const head = el("tr");
  const compare = (one, other) => {
    const { value } = columns[state.column];
    const [left, right] = [value(one), value(other)];
    // Missing values are last in both directions.
    if (left === null || left === undefined) return 1;
    if (right === null || right === undefined) return -1;
    const order = typeof left === "string" ? left.localeCompare(right) : left - right;
    return state.descending ? -order : order;
  };
  const kind = (column) => [column.text ? "text" : "number", column.minor ? "minor" : ""].join(" ").trim();
  const fill = () => {
    const sorted = [...rows].sort(compare);
    body.replaceChildren(...sorted.map((row) => el("tr", {}, columns.map((column, at) => {
      const shown = column.show ? column.show(row) : column.value(row);
      const isHeader = at === 0;
      return el(isHeader ? "th" : "td", { class: kind(column), scope: isHeader && "row" }, shown);
    }))));
    head.replaceChildren(...columns.map((column, at) => {
      const isSorted = at === state.column;
      const order = isSorted && (state.descending ? "descending" : "ascending");
      const sort = () => {
        state.descending = isSorted ? !state.descending : (column.newest ?? !column.text);
        state.column = at;
        fill();
        head.children[at].querySelector("button")?.focus();
      };
      const title = column.value && !column.unsorted
        ? el("button", { type: "button", onclick: sort, "data-key": `${id}:${at}`, title: column.help }, column.title)
        : el("span", {}, column.title);
      return el("th", { scope: "col", class: kind(column), "aria-sort": order }, title);
    }));
  };
  fill();
  return el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, head), body));
}

/** Rows of a label, a bar and a number, in the order given. */
export function bars(items, label) {
  const most = Math.max(1, ...items.map((item) => Math.abs(item.value)));
  return el("ul", { class: "bars", "aria-label": label }, items.map((item) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 100 4");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    bar.setAttribute("width", String(Math.abs(item.value) / most * 100));
    bar.setAttribute("height", "4");
    bar.setAttribute("class", item.value < 0 ? "bad" : item.kind ?? "good");
    svg.append(bar);
    return el("li", {}, el("span", { class: "label" }, item.label), el("span", { class: "amount" }, item.text), svg);
  }));
}

/** A block of text with a button that copies it. */
export function snippet(text, label) {
  const button = el("button", { type: "button", class: "quiet", "aria-label": `Copy ${label}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text to copy it";
    }
  });
  return el("div", { class: "snippet" }, el("pre", { tabindex: "0", "aria-label": label }, el("code", {}, text)), button);
}
