// Pieces that several views use.
import { h } from "./dom.js";
import { say } from "./words.js";

/** A table that scrolls by itself where it is too wide; `columns`: [title, class]; rows: {key, cells, class}. */
export function table(label, columns, rows, empty) {
  if (!rows.length && empty) return h("p.empty", {}, empty);
  return h("div.wide", { tabindex: "0", role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", { scope: "col", class: kind ?? "" }, title)))),
      h("tbody", {}, rows.map(row => h("tr", { "data-key": row.key, class: row.class ?? "" },
        row.cells.map((cell, at) => h(at ? "td" : "th", { class: columns[at][1] ?? "", scope: at ? null : "row" }, cell)))))));
}

export function loading() {
  return h("p.empty", { "data-loading": "" }, say("loading"));
}

export function section(title, ...children) {
  return h("section", { "data-key": title }, h("h2", {}, title), children);
}

/** A state in words and a mark, so that it is not told by colour alone. */
export function state(kind, text) {
  const mark = { good: "●", bad: "✕", note: "▲", off: "○" }[kind];
  return h("span.state", { class: kind }, h("span", { "aria-hidden": "true" }, mark), " ", text);
}

/** A button that asks the second question; null for who may not act. */
export function act(session, what, target, title, kind = "") {
  if (session?.role !== "operator") return null;
  return h("button.small", { type: "button", class: kind, "data-act": what, "data-target": target, "aria-label": `${title} ${target}` }, title);
}

export function setLink(name) {
  return name ? h("a", { href: `#/servers?set=${encodeURIComponent(name)}` }, name) : "";
}

export function envelopeLink(id) {
  return h("a.id", { href: `#/envelope/${id}` }, id);
}

/** A filter: links that keep the other parameters. */
export function choice(name, current, values, link) {
  return h("div.choice", { role: "group", "aria-label": name }, h("span.quiet", {}, name), values.map(([value, title]) =>
    h("a", { href: link(value), "aria-current": (current ?? "") === value ? "true" : null }, title)));
}

export function awayNotes(away) {
  const rows = Object.entries(Array.isArray(away) ? Object.fromEntries(away.map(one => [one, ""])) : away ?? {});
  return rows.map(([name, why]) => h("p.problem", {}, state("bad", `${name} ${say("does not answer")}`), why ? ` ${why}` : ""));
}
