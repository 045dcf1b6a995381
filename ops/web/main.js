import { call, logIn, logOut, mayBeLoggedIn, Problem } from "./api.js";
import { draw, forget } from "./charts.js";
import { ask } from "./dialog.js";
import { h, lay } from "./dom.js";
import { envelope, search } from "./envelope.js";
import { clock } from "./format.js";
import { databases, days, hot, payouts, servers, statements, switches } from "./lists.js";
import { chartsOf, overview } from "./overview.js";
import { loading, state } from "./parts.js";
import { choose, explain, preferred, remember, say } from "./words.js";

const EVERY_MS = 1000, KEPT = 600, LIST_EVERY_MS = 3000, LIVE_WAIT_MS = 3000;
const VIEWS = [["overview", "Overview", ""], ["servers", "Servers", ""], ["databases", "Databases", "databases"], ["days", "Days", "calendar"], ["hot", "Hot", "hot"],
  ["envelope", "Envelope", ""], ["statements", "Statements", "statements"], ["payouts", "Payouts", "stuck"], ["switches", "Switches", ""]];

const page = { session: null, asked: false, live: null, samples: [], next: 0, silentSince: null, error: "", list: null, listOf: "", listProblem: "", loginProblem: "", story: null, storyProblem: "" };
const app = document.getElementById("app"), told = document.getElementById("told");

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, id] = path.split("/");
  return { view: VIEWS.some(([name]) => name === view) ? view : "overview", id: id ?? "", query: new URLSearchParams(query ?? "") };
}

// --- what is asked for, and when

async function watch() {
  for (;;) {
    if (page.session && !document.hidden) await look();
    await new Promise(done => setTimeout(done, EVERY_MS));
  }
}

async function look() {
  try {
    const live = await call(`live?since=${page.next}`, { wait: LIVE_WAIT_MS });
    if (live.next < page.next) page.samples = [];
    [page.next, page.error] = [live.next, live.error];
    if (live.parts) {
      page.live = live;
      page.samples = [...page.samples, ...live.samples].slice(-KEPT);
    }
    page.silentSince = null;
  } catch (problem) {
    if (ended(problem)) return;
    page.silentSince ??= Date.now();
  }
  render();
}

async function readList() {
  for (;;) {
    const { view } = route(), name = VIEWS.find(([one]) => one === view)[2], path = view === "switches" ? "actions" : name && `lists/${name}`;
    if (page.session && path && !document.hidden) {
      try {
        const found = await call(path);
        [page.list, page.listOf, page.listProblem] = [found, view, ""];
      } catch (problem) {
        if (!ended(problem)) page.listProblem = explain(problem);
      }
      if (route().view === view) render();
    }
    await Promise.race([new Promise(done => setTimeout(done, LIST_EVERY_MS)), new Promise(done => { page.again = done; })]);
  }
}

async function readStory() {
  const { view, id } = route();
  if (view !== "envelope" || !id || !page.session) return;
  try {
    const found = await call(`envelopes/${encodeURIComponent(id)}`);
    if (route().id === id) [page.story, page.storyProblem] = [found, ""];
  } catch (problem) {
    if (!ended(problem) && route().id === id) [page.story, page.storyProblem] = [null, explain(problem)];
  }
  render();
}

function ended(problem) {
  if (!(problem instanceof Problem) || problem.status !== 401) return false;
  [page.session, page.loginProblem] = [null, problem.code === "session_ended" ? explain(problem) : ""];
  render();
  return true;
}

// --- what is drawn

function render() {
  const { view, id, query } = route();
  const drawn = page.session ? shell(view, body(view, id, query)) : page.asked ? login() : loading();
  lay(app, h("div", { id: "app" }, drawn));
  if (page.session && page.live && view === "overview") draw(chartsOf(page.live, page.samples), page.samples, String);
}

function body(view, id, query) {
  if (view === "envelope") {
    return h("div", {}, search(id, page.storyProblem), page.story && page.story.envelope_id === id ? envelope(page.story) : id && !page.storyProblem ? loading() : null);
  }
  if (!page.live) return page.error || page.silentSince ? null : loading();
  if (view === "overview") return overview(page.live, page.samples, page.session);
  if (view === "servers") return servers(page.live, page.session, query);
  if (view === "switches") return switches(page.live, page.listOf === view ? page.list : null, page.session);
  if (page.listOf !== view) return page.listProblem ? h("p.problem", { role: "alert" }, page.listProblem) : loading();
  const drawn = { databases, days, hot, statements, payouts }[view](page.list, query);
  return page.listProblem ? h("div", {}, h("p.problem", { role: "alert" }, page.listProblem), drawn) : drawn;
}

function shell(view, content) {
  const live = page.live, bad = live?.alarms.filter(one => one.level !== "note").length ?? 0;
  const verdict = page.silentSince ? state("bad", say("nothing heard")) : !live ? "" : bad ? state("bad", `${bad} · ${say("Needs attention")}`) : state("good", say("all is well"));
  return [
    h("a.skip", { href: "#main", "data-skip": "" }, say("Skip to content")),
    h("header", {},
      h("span.brand", {}, h("span.mark", { "aria-hidden": "true" }), say("hongbao ops")),
      h("nav", { "aria-label": say("Sections") }, VIEWS.map(([name, title]) => h("a", { href: `#/${name}`, "aria-current": name === view ? "page" : null }, say(title)))),
      h("span.verdict", { id: "verdict" }, verdict),
      live?.sandbox_now ? h("span.quiet", { id: "sandbox" }, `${say("sandbox")} ${new Date(live.sandbox_now).toLocaleDateString(document.documentElement.lang)} ${clock(live.sandbox_now)}`) : null,
      h("span.who", {}, h("span.quiet", {}, `${live ? clock(live.now) : ""} · ${page.session.name === page.session.role ? say(page.session.role) : `${page.session.name} (${say(page.session.role)})`}`),
        languageButton(), h("button.small", { type: "button", "data-logout": "" }, say("Log out")))),
    page.silentSince ? h("p.banner", { role: "alert", "data-key": "silent" }, `${say("No answer from this page's server")}, ${say("since")} ${clock(page.silentSince)}`) : null,
    page.error ? h("p.banner", { role: "alert", "data-key": "error" }, page.error) : null,
    h("main", { id: "main", tabindex: "-1" }, h("h1.hidden", {}, say(VIEWS.find(([name]) => name === view)[1])), h("div", { "data-key": `view-${view}` }, content)),
  ];
}

function languageButton() {
  const zh = document.documentElement.lang.startsWith("zh");
  return h("button.small", { type: "button", "data-language": zh ? "en" : "zh", lang: zh ? "en" : "zh-CN" }, zh ? "English" : "中文");
}

function login() {
  return h("main.login", { id: "main" }, h("form", { "data-form": "login", "data-key": "login" },
    h("h1", {}, h("span.mark", { "aria-hidden": "true" }), say("hongbao ops")),
    h("p", {}, say("The operator's key acts, the viewer's key only shows. ./run keys ops prints both.")),
    h("label", {}, say("Key"), h("input", { name: "key", type: "password", autocomplete: "current-password", required: true, "aria-describedby": page.loginProblem ? "login-problem" : null })),
    h("label", {}, say("Your name"), h("input", { name: "name", autocomplete: "nickname", maxlength: "40", placeholder: say("for the journal, not a right") })),
    page.loginProblem ? h("p.problem", { id: "login-problem", role: "alert" }, page.loginProblem) : null,
    h("div.row", {}, h("button.primary", { type: "submit" }, say("Log in")), languageButton())));
}

// --- what a person does

async function act(what, target) {
  const done = await ask(what, target);
  if (done) {
    told.textContent = `${done.target}: ${done.changed ? say("done") : say("already so")}${done.followed ? "" : ` · ${say("not followed yet")}`} ${done.detail}`;
    setTimeout(() => { told.textContent = ""; }, 12_000);
  }
  page.again?.();
  await look();
}

const forms = {
  async login(form) {
    try {
      page.session = await logIn(form.elements.key.value, form.elements.name.value);
      page.loginProblem = "";
      await Promise.all([look(), readStory()]);
      page.again?.();
    } catch (problem) {
      page.loginProblem = explain(problem);
    }
    render();
    (document.querySelector("#main input[name=key]") ?? document.getElementById("main")).focus({ preventScroll: true });
  },
  find(form) {
    location.hash = `#/envelope/${form.elements.id.value.trim()}`;
  },
  switch(form) {
    const where = form.elements.where.value;
    return act("switch_on", where ? `${form.elements.kind.value}:${where}` : form.elements.kind.value);
  },
};

document.addEventListener("submit", event => {
  const handler = forms[event.target.dataset.form];
  if (!handler) return;
  event.preventDefault();
  handler(event.target);
});

document.addEventListener("click", async event => {
  const button = event.target.closest("button, [data-skip]");
  if (!button) return;
  const { act: what, target, language, logout, audit, skip } = button.dataset;
  if (skip !== undefined) {
    event.preventDefault();
    document.getElementById("main").focus();
  } else if (what) await act(what, target);
  else if (language) {
    remember(language);
    forget();
    render();
  } else if (logout !== undefined) {
    await logOut();
    Object.assign(page, { session: null, live: null, samples: [], next: 0, list: null, listOf: "", story: null });
    render();
  } else if (audit !== undefined) {
    await call("audit", { body: {} }).catch(problem => { told.textContent = explain(problem); });
    await look();
  }
});

addEventListener("hashchange", () => {
  [page.story, page.storyProblem] = [null, ""];
  render();
  scrollTo(0, 0);
  page.again?.();
  readStory();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forget(); render(); });
addEventListener("resize", () => render());

choose(preferred());
render();
if (mayBeLoggedIn()) page.session = await call("session").catch(() => null);
page.asked = true;
render();
watch();
readList();
readStory();
if (page.session) look();
