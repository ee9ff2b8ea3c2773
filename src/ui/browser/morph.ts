/**
 * Makes one element equal to another with as few changes as possible, so that focus, selection, open details and scroll
 * positions stay. Children with an `id` are matched by it, the others by their position.
 */
export function morph(from: Element, to: Element): void {
  if (from.isEqualNode(to)) return;
  sameAttributes(from, to);
  sameChildren(from, to);
}

/** State that the user set is not overwritten. */
function isPersonal(element: Element, name: string): boolean {
  return element instanceof HTMLDetailsElement && name === 'open';
}

function sameAttributes(from: Element, to: Element): void {
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  for (const { name } of Array.from(from.attributes)) {
    if (!to.hasAttribute(name) && !isPersonal(from, name)) from.removeAttribute(name);
  }
}

function sameChildren(from: Element, to: Element): void {
  const named = new Map<string, Element>();
  for (const child of from.children) if (child.id !== '') named.set(child.id, child);
  let at = from.firstChild;
  for (const wanted of Array.from(to.childNodes)) {
    const known = wanted instanceof Element && wanted.id !== '' ? named.get(wanted.id) : undefined;
    if (known && known !== at) {
      from.insertBefore(known, at);
      at = known;
    }
    if (at && isAlike(at, wanted)) {
      const next: ChildNode | null = at.nextSibling;
      if (at instanceof Element) {
        if (!isBeingUsed(at)) morph(at, wanted as Element);
      } else if (at.nodeValue !== wanted.nodeValue) at.nodeValue = wanted.nodeValue;
      at = next;
    } else {
      from.insertBefore(document.importNode(wanted, true), at);
    }
  }
  while (at) {
    const next: ChildNode | null = at.nextSibling;
    at.remove();
    at = next;
  }
}

function isAlike(one: Node, other: Node): boolean {
  if (one.nodeType !== other.nodeType || one.nodeName !== other.nodeName) return false;
  return !(one instanceof Element && other instanceof Element) || one.id === other.id;
}

/** A field that the user is editing is left alone. */
function isBeingUsed(element: Element): boolean {
  return element === document.activeElement && element.matches('input, select, textarea');
}
