// Calls to this process. All paths are relative: the page works below any prefix.

const PROOF = "hongbao-ops-proof";
const ANSWER_MS = 25_000;

export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

export async function call(path, { body, wait = ANSWER_MS } = {}) {
  const headers = { "X-Ops-Proof": localStorage.getItem(PROOF) ?? "" };
  const options = { headers, signal: AbortSignal.timeout(wait), credentials: "same-origin" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(`api/${path}`, options);
  const told = await answer.json();
  if (!answer.ok) throw new Problem(answer.status, told.code, told.detail);
  return told;
}

export async function logIn(key, name) {
  const told = await call("login", { body: { key, name } });
  localStorage.setItem(PROOF, told.proof);
  return told;
}

export async function logOut() {
  localStorage.removeItem(PROOF);
  await call("logout", { body: {} });
}

/** Whether this browser has ever logged in here: if not, asking would only be refused. */
export function mayBeLoggedIn() {
  return localStorage.getItem(PROOF) !== null;
}
