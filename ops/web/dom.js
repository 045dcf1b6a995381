// The page is drawn anew each second and laid over what stands: elements keep their focus, scroll and selection.

/** Make an element: h("td.num", {title: "…"}, "text", child). Attributes that are null or false are left out. */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = [...classes, value].filter(Boolean).join(" ");
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(one => one !== null && one !== undefined && one !== false)
    .map(one => one instanceof Node ? one : String(one)));
  return element;
}

/** Make `old` what `wanted` is, with as few changes as possible. An element with data-keep is left as it is. */
export function lay(old, wanted) {
  attributes(old, wanted);
  if (old.hasAttribute("data-keep")) return;
  const known = new Map();
  for (const child of old.children) {
    const key = keyOf(child);
    if (key) known.set(key, child);
  }
  let at = old.firstChild;
  for (const child of [...wanted.childNodes]) {
    const key = keyOf(child);
    let match = key ? known.get(key) : null;
    if (!match && !key && at && alike(at, child) && !keyOf(at)) match = at;
    if (match && alike(match, child)) {
      if (match === at) at = at.nextSibling;
      else old.insertBefore(match, at);
      if (match.nodeType === Node.TEXT_NODE) {
        if (match.data !== child.data) match.data = child.data;
      } else lay(match, child);
    } else old.insertBefore(child, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") || node.id : "";
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}

function attributes(old, wanted) {
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // What a person has opened stays open.
    if (!wanted.hasAttribute(name) && !(name === "open" && old.localName === "details") && name !== "style") {
      old.removeAttribute(name);
    }
  }
}
