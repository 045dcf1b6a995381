import { h } from "./dom.js";
import { count, instant, ms, stretch, yuan } from "./format.js";
import { section, setLink, state } from "./parts.js";
import { say } from "./words.js";

const FIRST = 60, LAST = 20;

export function search(id, problem) {
  return h("form.row", { "data-form": "find", "data-key": "find" },
    h("label", {}, `${say("Find an envelope")} `, h("input", { name: "id", inputmode: "numeric", autocomplete: "off", maxlength: "24", size: "22", value: id ?? "", required: true, pattern: "[0-9]{19}", title: "19 digits", "aria-describedby": problem ? "find-problem" : null })),
    h("button", { type: "submit" }, say("Find")),
    problem ? h("p.problem", { id: "find-problem", role: "alert" }, problem) : null);
}

export function envelope(found) {
  const header = found.header;
  return h("div", { "data-key": found.envelope_id },
    section(`${say("Story")} · ${found.envelope_id}`,
      h("p.verdict", {}, found.verdict.holds ? state("good", `${say("verdict")}: ${say("holds")}`) : state("bad", `${say("verdict")}: ${say("does not hold")}`),
        h("span.quiet", {}, ` · ${ms(found.verdict.seconds * 1000)}`)),
      found.verdict.violations.map(one => h("p.problem", {}, h("strong", {}, one.check), ` ${one.detail}`)),
      h("dl.facts", {}, facts(found, header).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))))),
    h("div.columns", {},
      section(say("timeline"), timeline(found)),
      section(say("Raw JSON"), h("pre", { tabindex: "0", role: "region", "aria-label": say("Raw JSON") }, JSON.stringify(found, null, 2)))));
}

function facts(found, header) {
  const sums = found.sums;
  return [
    [say("state"), say(found.status)],
    ...(header ? [[say("sender"), h("bdi", {}, header.sender)], [say("kind"), say(header.kind)], [say("total"), yuan(header.total_fen)], [say("shares"), count(header.count)],
      [say("greeting"), h("bdi", {}, header.greeting || "–")], [say("split"), `${header.split} v${header.split_version}`], [say("password"), header.password ? say("yes") : say("no")],
      [say("named"), header.named ? h("bdi", {}, header.named.join(", ")) : say("no")]] : []),
    [say("paid in"), yuan(sums.paid_in_fen)], [say("claimed sum"), yuan(sums.claimed_fen)], [say("credited"), yuan(sums.credited_fen)], [say("refunded"), yuan(sums.refunded_fen)],
    [say("left"), yuan(sums.open_fen)], [say("in flight"), yuan(sums.in_flight_fen)],
    [say("SET"), setLink(found.set)], [say("server"), found.server], [say("database"), found.database], [say("day"), found.day], [say("place"), say(found.place)], [say("in escrow"), `${yuan(sums.in_escrow_fen)} · ${found.escrow}`],
  ];
}

function timeline(found) {
  const events = found.timeline;
  const cut = events.length > FIRST + LAST ? events.length - FIRST - LAST : 0;
  const shown = cut ? [...events.slice(0, FIRST), { cut }, ...events.slice(-LAST)] : events;
  const kinds = { paid: "good", refunded: "good", claimed: "good", created: "off", funded: "off", expired: "note", canceled: "note", undone: "note" };
  let before = null;
  return h("ol.timeline", {}, shown.map(one => {
    if (one.cut) return h("li.quiet", {}, `… ${count(one.cut)} ${say("more in the JSON")} …`);
    const after = before === null ? "" : `+${stretch(Math.max(0, one.at_ms - before))}`;
    before = one.at_ms;
    return h("li", {}, h("time", { datetime: new Date(one.at_ms).toISOString() }, instant(one.at_ms)), h("span.quiet.after", {}, after),
      h("span", {}, state(kinds[one.what] ?? "off", say(one.what)), one.seq === undefined ? "" : h("span.quiet", {}, ` #${one.seq}`), " ", one.user ? h("bdi", {}, one.user) : ""),
      h("span.num", {}, one.fen === undefined || one.fen === null ? "" : yuan(one.fen)));
  }));
}
