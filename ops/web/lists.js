import { h } from "./dom.js";
import { age, count, megabytes, ms, yuan } from "./format.js";
import { act, awayNotes, choice, envelopeLink, section, setLink, state, table } from "./parts.js";
import { say } from "./words.js";

export function servers(live, session, query) {
  const link = change => `#/servers?${new URLSearchParams(Object.entries({ ...Object.fromEntries(query), ...change }).filter(([, value]) => value))}`;
  const kinds = ["gateway", "setnode", "wallet", "postgres", "memcached", "events", "rotation"];
  const wanted = live.parts.filter(one => (!query.get("kind") || one.kind === query.get("kind"))
    && (!query.get("set") || one.set === query.get("set"))
    && (!query.get("state") || (one.drained ? "drained" : one.up ? "up" : "away") === query.get("state")));
  const columns = [[say("part")], [say("state")], [say("kind")], [say("SET")], [say("address")], [say("process"), "num"], [say("up for"), "num"], [say("restarts"), "num"], [say("memory"), "num"], [say("in memory"), "num"], [say("topology"), "num"]];
  if (session?.role === "operator") columns.push([say("action")]);
  return section(say("Servers"),
    h("div.filters", {},
      choice(say("kind"), query.get("kind"), [["", say("all")], ...kinds.map(one => [one, say(one)])], value => link({ kind: value })),
      choice(say("SET"), query.get("set"), [["", say("all")], ...live.sets.map(one => [one.name, one.name])], value => link({ set: value })),
      choice(say("state"), query.get("state"), [["", say("all")], ["up", say("up")], ["away", say("away")], ["drained", say("drained")]], value => link({ state: value }))),
    table(say("Servers"), columns, wanted.map(one => ({
      key: one.name,
      class: one.up ? "" : "bad",
      cells: [one.name, one.up ? (one.drained ? state("note", say("drained")) : state("good", say("up"))) : h("span", {}, state("bad", say("away")), " ", h("span.quiet", {}, one.detail)),
        say(one.kind), setLink(one.set), h("span.id", {}, one.address), one.pid || "–", age(one.started_ms, live.now), one.restarts, megabytes(one.rss_bytes), one.envelopes === null ? "–" : count(one.envelopes), one.topology_version ?? "–",
        ...(session?.role === "operator" ? [one.kind !== "setnode" ? "" : one.drained ? act(session, "undrain", one.name, say("Undrain")) : act(session, "drain", one.name, say("Drain"))] : [])],
    })), say("none")));
}

export function databases(found, query) {
  const names = [...new Set(found.databases.map(one => one.set))].sort();
  const wanted = found.databases.filter(one => !query.get("set") || one.set === query.get("set"));
  return section(say("Where each database lives"), awayNotes(found.away),
    h("div.filters", {}, choice(say("SET"), query.get("set"), [["", say("all")], ...names.map(one => [one, one])], value => `#/databases${value ? `?set=${value}` : ""}`)),
    table(say("Databases"), [[say("database")], [say("lives in")], [say("from a date on")], [say("epoch"), "num"], [say("move")]], wanted.map(one => ({
      key: one.name,
      cells: [one.name, h("span", {}, setLink(one.set), one.held ? state("note", ` ${say("held")}`) : ""), one.since.map(move => `${move.day} → ${move.set}`).join(", ") || "–", one.epoch,
        one.move ? state("note", `→ ${one.move.to} · ${one.move.kind} · ${one.move.step}`) : "–"],
    }))));
}

export function days(found) {
  const order = ["closed", "detached", "exported", "verified", "dropped"];
  const all = [...new Set(Object.values(found.sets).flatMap(some => some.map(one => one.day)))].sort().reverse();
  const names = Object.keys(found.sets);
  const cell = (name, day) => {
    const one = found.sets[name].find(some => some.day === day);
    if (!one) return "–";
    const states = order.filter(some => one.states[some]).map(some => `${say(some)} ${one.states[some]}`);
    return h("span", {}, one.hot ? state("good", say("hot")) : "", states.length ? state(one.states.dropped && states.length === 1 ? "off" : "note", states.join(", ")) : "");
  };
  // Of hot days nothing is counted: the register gets their sums when they close.
  const counted = day => names.some(name => Object.keys(found.sets[name].find(one => one.day === day)?.states ?? {}).length);
  const sum = (day, key) => counted(day) ? names.reduce((total, name) => total + (found.sets[name].find(one => one.day === day)?.[key] ?? 0), 0) : null;
  return section(say("Day-table calendar"), awayNotes(found.away), table(say("Day-table calendar"),
    [[say("day")], ...names.map(name => [name]), [say("envelopes"), "num"], [say("paid in"), "num"]],
    all.map(day => ({
      key: day,
      class: day === found.today ? "now" : "",
      cells: [day === found.today ? `${day} · ${say("today")}` : day, ...names.map(name => cell(name, day)), count(sum(day, "envelopes")) , yuan(sum(day, "paid_in_fen"))],
    }))));
}

export function hot(found, query) {
  const names = [...new Set(found.hot.map(one => one.set))].sort();
  const wanted = found.hot.filter(one => !query.get("set") || one.set === query.get("set"));
  return section(say("Opened most in the last minute"), awayNotes(found.away),
    h("div.filters", {}, choice(say("SET"), query.get("set"), [["", say("all")], ...names.map(one => [one, one])], value => `#/hot${value ? `?set=${value}` : ""}`)),
    table(say("Hot"), [[say("envelope")], [say("SET")], [say("server")], [say("opened in a minute"), "num"], [say("waiting"), "num"], [say("shares left"), "num"]],
      wanted.map(one => ({ key: one.envelope_id, cells: [envelopeLink(one.envelope_id), setLink(one.set), one.server, count(one.opened), count(one.waiting), count(one.shares_left)] })),
      say("no envelope was opened in the last minute")));
}

export function statements(found, query) {
  const wanted = found.servers.filter(one => !query.get("server") || one.server === query.get("server"));
  return h("div", {}, h("div.filters", {}, choice(say("server"), query.get("server"), [["", say("all")], ...found.servers.map(one => [one.server, one.server])], value => `#/statements${value ? `?server=${value}` : ""}`)),
    awayNotes(found.away),
    wanted.map(one => section(`${say("Slow statements")} · ${one.server}`,
      h("p.quiet", {}, one.source === "pg_stat_statements" ? `${say("counted by")} pg_stat_statements` : `pg_stat_activity: ${say("this server does not count statements; shown is what runs now, as the audit's role sees it")}`),
      one.source === "pg_stat_statements" ? table(`${say("Slow statements")} ${one.server}`,
        [[say("statement"), "sql"], [say("calls"), "num"], [say("total"), "num"], [say("mean"), "num"], [say("most"), "num"], [say("rows"), "num"]],
        one.counted.map((row, at) => ({ key: `${at} ${row.query}`, cells: [h("code", {}, row.query), count(row.calls), ms(row.total_ms), ms(row.mean_ms), ms(row.max_ms), count(row.rows)] }))) : null,
      h("h3", {}, say("running now")),
      table(`${say("running now")} ${one.server}`, [[say("statement"), "sql"], [say("role")], [say("waits for")], [say("running"), "num"]],
        one.running.map((row, at) => ({ key: String(at), cells: [h("code", {}, row.query), row.role, row.waits_for || "–", ms(row.running_ms)] })), say("nothing runs for longer than a moment")))));
}

export function payouts(found) {
  return section(say("Stuck payouts"), awayNotes(found.away),
    table(say("Stuck payouts"), [[say("envelope")], [say("SET")], ["#", "num"], [say("receiver")], [say("amount"), "num"], [say("tries"), "num"], [say("since")], [say("reason")]],
      found.stuck.map(one => ({ key: `${one.envelope_id}.${one.seq}`, cells: [envelopeLink(one.envelope_id), setLink(one.set), one.seq, one.receiver ?? "?", yuan(one.amount_fen), one.attempts, one.stuck_at.slice(0, 19).replace("T", " "), one.reason] })),
      say("no payout is stuck")),
    found.stuck.length ? h("p.quiet", {}, `${say("drive them again with")} `, h("code", {}, "./run payout retry --all")) : null);
}

export function switches(live, journal, session) {
  const kinds = ["creates", "grabs", "opens", "views", "lists", "payouts"];
  const targets = ["", ...live.sets.map(one => one.name)];
  const rows = live.switches.map(one => ({ key: one.name, cells: [one.name, one.until.slice(0, 19).replace("T", " "), one.owner, one.reason,
    ...(session?.role === "operator" ? [act(session, "switch_off", one.name, say("Open again"))] : [])] }));
  const columns = [[say("switch")], [`${say("until")} (UTC)`], [say("owner")], [say("reason")]];
  if (session?.role === "operator") columns.push([say("action")]);
  return h("div", {}, section(say("What is closed"), table(say("What is closed"), columns, rows, say("nothing is closed")),
    session?.role === "operator" ? h("form.row", { "data-form": "switch", "data-key": "switch" },
      h("label", {}, `${say("Close something")} `, h("select", { name: "kind" }, kinds.map(one => h("option", { value: one }, say(one))))),
      h("label", {}, `${say("SET")} `, h("select", { name: "where" }, targets.map(one => h("option", { value: one }, one || say("everywhere"))))),
      h("button", { type: "submit" }, `${say("Close")} …`)) : h("p.quiet", {}, say("The viewer's key shows; to act, log in with the operator's key."))),
    section(say("Actions"), table(say("Actions"), [[say("at")], [say("who")], [say("what")], [say("target")], [say("reason")], [say("result")]],
      (journal?.actions ?? []).map(one => ({ key: one.id, cells: [one.at.slice(0, 19).replace("T", " "), one.who, one.do, one.target, one.reason,
        h("span", {}, one.changed ? say("done") : say("already so"), one.followed ? "" : state("note", ` ${say("not followed yet")}`), one.detail ? h("span.quiet", {}, ` ${one.detail}`) : "")] })), say("no action was taken yet"))));
}
