// Elements made by code, and what is on the page brought to what it should be.
//
// Nothing here makes markup of text: whatever peers call themselves becomes a text node.

const SVG = "http://www.w3.org/2000/svg";

/** An element of HTML with attributes and children; what is null or false is left out. */
export function h(tag, attributes, ...children) {
  return made(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function s(tag, attributes, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

function made(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(String(child));
  }
}

/**
 * Makes `old` like `next`, and keeps whatever is alike: focus, places of scrolling, selections. An
 * element with `data-own` looks after its inside by itself.
 */
export function morph(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || keyOf(old) !== keyOf(next)) {
    old.replaceWith(next);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    // Whether details are open is the reader's.
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const event of EVENTS) {
    if (old[event] !== next[event]) old[event] = next[event];
  }
  if (!old.hasAttribute("data-own")) morphChildren(old, [...next.childNodes]);
}

function morphChildren(old, wanted) {
  const keyed = new Map();
  for (const child of old.childNodes) {
    if (keyOf(child)) keyed.set(keyOf(child), child);
  }
  let at = old.firstChild;
  for (const next of wanted) {
    const same = keyed.get(keyOf(next));
    if (same && same !== at) {
      old.insertBefore(same, at);
      morph(same, next);
    } else if (same || (at && !keyOf(at))) {
      const following = at.nextSibling;
      morph(at, next);
      at = following;
    } else {
      old.insertBefore(next, at);
    }
  }
  while (at) {
    const following = at.nextSibling;
    at.remove();
    at = following;
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

const EVENTS = ["onclick", "oninput", "onsubmit", "onkeydown", "onpointermove", "onpointerleave", "onfocus", "onblur"];
