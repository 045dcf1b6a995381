// The second question: why, and the target's name typed once more. One action has one ID, however often it is sent.
import { call } from "./api.js";
import { h } from "./dom.js";
import { explain, say } from "./words.js";

const TEXTS = {
  drain: ["Drain", "This takes a server off the ring; the others of its SET serve its envelopes. No request fails."],
  undrain: ["Undrain", "This puts the server back on the ring."],
  pause: ["Pause", "All users of this SET get 503 until it is resumed. Expiry and payouts go on."],
  resume: ["Resume", "The SET serves its users again."],
  switch_on: ["Close", "Users hear 503 degraded for what is closed. It opens by itself at its time."],
  switch_off: ["Open again", "It is served again within a second."],
};

/** Ask, and do it; resolves to what became of it, or null if the person thought better of it. */
export function ask(what, target) {
  const dialog = document.getElementById("dialog"), [title, text] = TEXTS[what];
  // localhost and https alone have crypto.randomUUID; an operator may come by another way.
  const id = [...crypto.getRandomValues(new Uint8Array(16))].map(one => one.toString(16).padStart(2, "0")).join("");
  const problem = h("p.problem", { role: "alert" });
  const hits = h("p.quiet", {}, "");
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, `${say(title)}: `, h("code", {}, target)),
    h("p", {}, say(text)), hits,
    h("label", {}, say("Why?"), h("input", { name: "reason", required: true, maxlength: "200", placeholder: say("others will read it"), autocomplete: "off" })),
    what === "switch_on" ? h("label", {}, say("For how many minutes?"), h("input", { name: "minutes", type: "number", min: "1", max: "10080", value: "60", required: true })) : null,
    h("label", {}, `${say("To confirm, type")} ${target}`, h("input", { name: "confirm", required: true, autocomplete: "off", autocapitalize: "off", spellcheck: "false" })),
    problem,
    h("div.row", {}, h("button.danger", { type: "submit", name: "go" }, say(title)), h("button", { type: "button", name: "cancel" }, say("Cancel"))));
  dialog.replaceChildren(form);
  dialog.showModal();
  form.elements.reason.focus();
  if (what === "switch_on") {
    call(`switches/${encodeURIComponent(target)}/effect`).then(found => { hits.textContent = found.sentence; }, error => { hits.textContent = explain(error); });
  }
  return new Promise(done => {
    let result = null;
    form.elements.cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => done(result), { once: true });
    form.addEventListener("submit", async event => {
      event.preventDefault();
      event.stopPropagation();
      const { reason, confirm, minutes, go } = form.elements;
      go.disabled = true;
      try {
        result = await call("actions", { body: { id, do: what, target, reason: reason.value, confirm: confirm.value.trim(), ...(minutes ? { minutes: Number(minutes.value) } : {}) } });
        dialog.close();
      } catch (error) {
        problem.textContent = explain(error);
        go.disabled = false;
      }
    });
  });
}
