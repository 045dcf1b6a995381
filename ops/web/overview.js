import { h } from "./dom.js";
import { age, clock, count, ms, yuan } from "./format.js";
import { act, loading, section, setLink, state, table } from "./parts.js";
import { say } from "./words.js";

const refusedSum = sample => Object.values(sample.refused).reduce((sum, one) => sum + one, 0);

export function overview(live, samples, session) {
  const last = samples.at(-1);
  return h("div", {},
    alarms(live),
    last ? tiles(live, last, session) : loading(),
    h("section.charts", { "aria-label": say("Last ten minutes"), "data-key": "charts" }, h("h2", {}, say("Last ten minutes")), chartsOf(live, samples).map(one => figure(one, last))),
    section(say("SETs"), sets(live, last, session)),
    h("div.columns", {},
      section(say("Refusals by reason"), refusals(samples)),
      section(say("What happened"), happened(live))),
    section(say("Parts"), h("ul.chips", {}, live.parts.map(one => h("li", { "data-key": one.name },
      h("a.chip", { href: `#/servers?kind=${one.kind}`, class: one.up ? "good" : "bad" },
        h("span", { "aria-hidden": "true" }, one.up ? "●" : "✕"), ` ${one.name}`, one.up ? "" : ` ${say("away")}`))))));
}

function alarms(live) {
  if (!live.alarms.length) return null;
  const kinds = { page: "bad", look: "note", note: "note" };
  return h("section.alarms", { "data-key": "alarms" }, h("h2", {}, say("Needs attention")),
    h("ul", {}, live.alarms.map(one => h("li", { class: kinds[one.level], "data-key": `${one.code} ${one.subject}` },
      state(kinds[one.level], ""), h("strong", {}, one.subject), ` ${say(one.code)}`,
      one.value ? h("span.quiet", {}, `${one.code === "days_ahead" ? "" : " ·"} ${one.code === "switched" ? `${say("until")} ${clock(one.value)}` : one.value}`) : ""))));
}

function tiles(live, last, session) {
  const audit = live.audit;
  const shown = [
    [say("opens/s"), count(last.opens), `${count(last.won)} ${say("won")} · ${count(last.creates)} ${say("creates/s")}`],
    [say("requests/s"), count(last.requests), `${count(last.errors)} ${say("errors/s")} · p99 ${ms(last.http_p99_ms)}`, last.errors > 0 ? "bad" : ""],
    [say("refused/s"), count(refusedSum(last)), `${say("line")} ${ms(last.line_ms)}`, refusedSum(last) > 0 ? "note" : ""],
    [say("mailbox p99"), ms(last.box_p99_ms), `${count(last.waiting)} ${say("waiting")}`],
    [say("commit p99"), ms(last.commit_p99_ms), `p50 ${ms(last.commit_p50_ms)} · ${say("batch")} ${count(last.batch)}`],
    [say("payout lag p99"), ms(last.lag_p99_ms), `${count(last.paid)} ${say("paid/s")}`],
    [say("in flight"), yuan(last.in_flight_fen), `${say("in escrow")} ${yuan(last.escrow_fen)}`],
    [say("unreconciled"), audit.state === "done" ? yuan(audit.unreconciled_fen) : "–", auditText(audit), audit.state === "done" && !audit.holds ? "bad" : ""],
  ];
  return h("section.tiles", { "aria-label": say("Now"), "data-key": "tiles" }, h("h2.hidden", {}, say("Now")), h("dl", {}, shown.map(([name, value, more, kind]) =>
    h("div", { class: kind ?? "", "data-key": name }, h("dt", {}, name), h("dd.value", {}, value), h("dd.more", {}, more,
      name === say("unreconciled") && session?.role === "operator" && !audit.running
        ? h("button.small", { type: "button", "data-audit": "" }, say("Audit now")) : null)))));
}

function auditText(audit) {
  if (audit.running) return say("audit running");
  if (audit.state === "done") return `${audit.holds ? say("everything adds up") : `${audit.violation_count} ${say("violations")}`} · ${clock(audit.at)} `;
  return audit.state === "failed" ? `${say("audit failed")}: ${audit.detail} ` : `${say("never audited here")} `;
}

/** What is charted: an id, a title, series by sample, and how its numbers are written. */
export function chartsOf(live, samples) {
  const last = samples.at(-1);
  const names = live.sets.map(one => one.name);
  return [
    { id: "chart-opens", title: say("opens/s"), format: count, least: 10, series: names.map(name => ({ label: name, value: one => one.sets[name]?.opens ?? null })) },
    { id: "chart-waits", title: say("waits"), format: ms, least: 5, axis: value => `${value} ms`, series: [
      { label: say("line"), value: one => one.line_ms }, { label: say("mailbox p99"), value: one => one.box_p99_ms }, { label: say("commit p99"), value: one => one.commit_p99_ms }] },
    { id: "chart-batch", title: say("rows a commit"), format: count, least: 4, series: names.map(name => ({ label: name, value: one => one.sets[name]?.batch ?? null })) },
    { id: "chart-refused", title: say("refused/s"), format: count, least: 10, series: [
      { label: say("refused/s"), value: refusedSum }, { label: say("errors/s"), value: one => one.errors }] },
    { id: "chart-lag", title: say("payout lag p99"), format: ms, least: 20, axis: value => `${value} ms`, series: names.map(name => ({ label: name, value: one => one.sets[name]?.lag_p99_ms ?? null })) },
    { id: "chart-money", title: say("money in flight"), format: yuan, least: 100, axis: value => `¥${value / 100}`, series: [{ label: say("in flight"), value: one => one.in_flight_fen }] },
  ].map(one => ({ ...one, last }));
}

function figure(one, last) {
  return h("figure", { "data-key": one.id },
    h("figcaption", {}, h("strong", {}, one.title), h("span.legend", {}, one.series.map((series, at) =>
      h("span", {}, h("span.key", { class: `series-${at % 6}`, "aria-hidden": "true" }), `${series.label} `, h("b", {}, last ? one.format(series.value(last)) : "–"))))),
    h("div.plot", { id: one.id, "data-keep": "", role: "img", "aria-label": `${say("chart")}: ${one.title}, ${say("Last ten minutes")}` }));
}

function sets(live, last, session) {
  const columns = [[say("SET")], [say("state")], [say("servers"), "num"], [say("databases")], [say("opens/s"), "num"], [say("commit p99"), "num"],
    [say("batch"), "num"], [say("waiting"), "num"], [say("payout lag p99"), "num"], [say("in flight"), "num"], [say("days ahead"), "num"]];
  if (session?.role === "operator") columns.push([say("action")]);
  return table(say("SETs"), columns, live.sets.map(one => {
    const figures = last?.sets[one.name] ?? {};
    const own = live.parts.filter(part => part.set === one.name), away = own.filter(part => !part.up);
    const up = own.filter(part => part.kind === "setnode" && part.up).length;
    const bad = away.length > 0;
    return {
      key: one.name,
      class: bad ? "bad" : "",
      cells: [setLink(one.name), setState(one, away), `${up} / ${one.servers.length}`, ranges(one.databases), count(figures.opens), ms(figures.commit_p99_ms), count(figures.batch),
        count(figures.waiting), ms(figures.lag_p99_ms), yuan(figures.in_flight_fen), one.days_ahead ?? "–",
        ...(session?.role === "operator" ? [one.paused ? act(session, "resume", one.name, say("Resume")) : act(session, "pause", one.name, say("Pause"))] : [])],
    };
  }));
}

function setState(one, away) {
  if (away.length) return state("bad", `${say("away")}: ${away.map(part => part.name).join(", ")}`);
  if (one.paused) return state("note", say("paused"));
  return one.drained.length ? state("note", `${say("drained")}: ${one.drained.join(", ")}`) : state("good", say("in service"));
}

/** db_00, db_01, db_02, db_05 as 00–02, 05. */
export function ranges(names) {
  const numbers = names.map(one => Number(one.slice(3)));
  const parts = [];
  for (const one of numbers) {
    const last = parts.at(-1);
    if (last && last[1] === one - 1) last[1] = one;
    else parts.push([one, one]);
  }
  const two = one => String(one).padStart(2, "0");
  return parts.map(([from, to]) => from === to ? two(from) : `${two(from)}–${two(to)}`).join(", ") || say("none");
}

function refusals(samples) {
  const sums = new Map();
  for (const sample of samples) {
    for (const [why, rate] of Object.entries(sample.refused)) sums.set(why, (sums.get(why) ?? 0) + rate);
  }
  const now = samples.at(-1)?.refused ?? {};
  const rows = [...sums].sort((one, other) => other[1] - one[1]);
  return table(say("Refusals by reason"), [[say("reason")], [say("now/s"), "num"], [say("in ten minutes"), "num"]],
    rows.map(([why, sum]) => ({ key: why, cells: [why.replace(":", " · "), count(now[why] ?? 0), count(Math.round(sum))] })), say("no request was refused"));
}

function happened(live) {
  if (!live.events.length) return h("p.empty", {}, say("nothing happened while this was watched"));
  const words = { away: ["bad", say("is away")], back: ["good", say("is back")], restarted: ["note", say("was restarted")] };
  return h("ol.events", {}, live.events.slice(-12).reverse().map(one => h("li", { "data-key": `${one.at_ms} ${one.part}` },
    h("time", { datetime: new Date(one.at_ms).toISOString(), title: age(one.at_ms, live.now) }, clock(one.at_ms)), " ",
    state(words[one.what][0], ""), h("strong", {}, one.part), ` ${words[one.what][1]} `, h("span.quiet", {}, one.detail))));
}
