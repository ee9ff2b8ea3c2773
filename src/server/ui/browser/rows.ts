/**
 * Rows of a form that are added, moved and removed in place. Without scripts, a form has some empty rows, and each save
 * brings more. A row's number is in the names of its fields and in what refers to them: the server needs them in order.
 */
export function editRows(): void {
  prepare(document, 0);
}

/** Lists inside rows have a number for each list around them. */
function prepare(within: ParentNode, depth: number): void {
  for (const list of within.querySelectorAll<HTMLElement>('[data-rows]'))
    if (list.dataset['ready'] === undefined && depthOf(list) === depth) makeEditable(list, depth);
}

const depthOf = (list: Element): number => {
  const around = list.parentElement?.closest('[data-rows]');
  return around ? depthOf(around) + 1 : 0;
};

function makeEditable(list: HTMLElement, depth: number): void {
  const { rows: what = '', add: words = '' } = list.dataset;
  const [most, least] = [Number(list.dataset['most']), Number(list.dataset['least'])];
  const rows = (): HTMLElement[] => Array.from(list.querySelectorAll<HTMLElement>(':scope > [data-row]'));
  list.dataset['ready'] = '';
  const empty = emptied(rows().at(-1));
  if (!empty) return;
  for (const row of rows().toReversed()) if (rows().length > least && isBlank(row)) row.remove();

  const add = button(words, 'quiet');
  list.after(add);
  const equip = (row: HTMLElement): void => {
    const tools = document.createElement('div');
    tools.className = 'row-tools';
    const tool = (sign: string, does: string, act: () => void): void => {
      const one = button(sign, 'quiet');
      one.dataset['does'] = does;
      one.addEventListener('click', () => {
        act();
        settle();
        if (!row.isConnected) return;
        // The first row cannot move up: that button is hidden, and takes no focus.
        for (const next of [one, ...tools.querySelectorAll('button')]) {
          next.focus();
          if (document.activeElement === next) return;
        }
      });
      tools.append(one);
    };
    tool('↑', 'Move up', () => row.previousElementSibling?.before(row));
    tool('↓', 'Move down', () => row.nextElementSibling?.after(row));
    tool('✕', 'Remove', () => {
      (row.nextElementSibling ?? row.previousElementSibling)?.querySelector<HTMLElement>(focusable)?.focus();
      row.remove();
      if (rows().length === 0) add.focus();
    });
    row.append(tools);
  };
  const settle = (): void => {
    for (const [at, row] of rows().entries()) {
      renumber(row, depth, at);
      for (const tool of row.querySelectorAll<HTMLElement>(':scope > .row-tools > button'))
        tool.setAttribute('aria-label', `${tool.dataset['does']}: ${what} ${at + 1}`);
    }
    add.hidden = rows().length >= most;
  };
  add.addEventListener('click', () => {
    const row = empty.cloneNode(true) as HTMLElement;
    if (row instanceof HTMLDetailsElement) row.open = true;
    list.append(row);
    equip(row);
    settle();
    prepare(row, depth + 1);
    row.querySelector<HTMLElement>(focusable)?.focus();
  });
  rows().forEach(equip);
  settle();
  for (const row of rows()) prepare(row, depth + 1);
}

const fields = 'input, textarea, select';
const focusable = 'input:not([type=hidden]), textarea, select';

function button(text: string, kind: string): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = kind;
  made.textContent = text;
  return made;
}

/** A choice always has a value, so it does not count. */
function isBlank(row: HTMLElement): boolean {
  const typed = row.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input, textarea');
  return Array.from(typed).every(({ value }) => value.trim() === '');
}

/** A copy of the last row without what is typed there. The server renders it without mistakes, except at the limit. */
function emptied(row: HTMLElement | undefined): HTMLElement | undefined {
  const copy = row?.cloneNode(true) as HTMLElement | undefined;
  for (const mistake of copy?.querySelectorAll('.mistake') ?? []) mistake.remove();
  for (const field of copy?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>(fields) ??
    []) {
    field.removeAttribute('aria-invalid');
    if (field instanceof HTMLSelectElement) field.selectedIndex = 0;
    else field.value = '';
  }
  return copy;
}

const numbered = ['name', 'id', 'for', 'aria-describedby'];

function renumber(row: HTMLElement, depth: number, to: number): void {
  const shown = row.querySelector(':scope > legend [data-number]');
  if (shown) shown.textContent = String(to + 1);
  for (const element of row.querySelectorAll('*'))
    for (const name of numbered) {
      const value = element.getAttribute(name);
      if (value !== null)
        element.setAttribute(
          name,
          value
            .split(' ')
            .map((one) => withNumber(one, depth, to))
            .join(' '),
        );
    }
}

/** `services[0][variables][1][name]` and `save-services_0_variables_1_name` have two numbers, at depth 0 and 1. */
function withNumber(name: string, depth: number, to: number): string {
  let found = -1;
  return name.replaceAll(/([[_])(\d+)(?=[\]_])/g, (whole, before: string) => {
    found += 1;
    return found === depth ? `${before}${to}` : whole;
  });
}
