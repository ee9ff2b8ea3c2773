import type { Service, Suite, Translation } from './model.ts';

/** The file is well formed whatever the names and texts are: each is written here, and nowhere else. */

const newLine = /\r\n|[\n\r\u0085\u2028\u2029]/;
// oxlint-disable-next-line no-control-regex -- TOML allows none of them, except tabs
const control = /[\u0000-\u0008\u000B-\u001F\u007F]/;

export function writeToml(translation: Translation): string {
  const { notes, suites, schedules, parameters, secrets } = translation;
  const parts = [comments(notes)];
  for (const { options, ...parameter } of parameters)
    parts.push(table('[[parameters]]', { ...parameter, ...(options.length > 0 && { options }) }));
  for (const [name, why] of secrets) parts.push(`${comments([why])}${table('[[variables]]', { name, keep: true })}`);
  for (const suite of suites) parts.push(suiteOf(suite));
  for (const { variables, ...schedule } of schedules)
    parts.push(table('[[schedules]]', { ...schedule, ...(variables && { variables }) }));
  return parts.filter((part) => part !== '').join('\n');
}

function suiteOf(suite: Suite): string {
  const { name, notes, fields, steps, services, rules, variables, cache, artifacts, needs } = suite;
  const own = { name, ...fields, ...lists({ needs, cache, artifacts }) };
  const run = steps.filter(({ command }) => command !== '');
  const parts = [`${comments(notes)}${table('[[suites]]', own)}`];
  let waiting: string[] = [];
  for (const { name: step, command, when, notes: about } of steps) {
    waiting.push(...about);
    if (command === '') continue;
    parts.push(`${comments(waiting)}${table('[[suites.steps]]', { name: step, command, ...(when && { when }) })}`);
    waiting = [];
  }
  if (run.length === 0 && steps.length > 0) parts.push('');
  if (waiting.length > 0) parts.push(comments(waiting));
  parts.push(...services.map(serviceOf));
  for (const rule of rules) parts.push(table('[[suites.rules]]', { ...rule }));
  for (const variable of variables) parts.push(table('[[suites.variables]]', { ...variable, secret: false }));
  return parts.filter((part) => part !== '').join('\n');
}

function lists(given: Readonly<Record<string, readonly string[]>>): Record<string, readonly string[]> {
  return Object.fromEntries(Object.entries(given).filter(([, list]) => list.length > 0));
}

function serviceOf({ notes, variables, ...service }: Service): string {
  return `${comments(notes)}${table('[[suites.services]]', { ...service, ...(variables.length > 0 && { variables }) })}`;
}

function comments(notes: readonly string[]): string {
  const lines = notes.flatMap((note) => note.toWellFormed().split(newLine));
  return lines
    .map((line) => `# ${line.replaceAll(/\p{Cc}/gu, '\uFFFD')}`.trimEnd())
    .map((line) => `${line}\n`)
    .join('');
}

function table(header: string, entries: object): string {
  const lines = Object.entries(entries).flatMap(([name, given]) =>
    given === undefined ? [] : [`${keyOf(name)} = ${valueOf(given)}`],
  );
  return `${[header, ...lines].join('\n')}\n`;
}

const keyOf = (name: string): string => (/^[A-Za-z0-9_-]+$/.test(name) ? name : quoted(name));

function valueOf(given: unknown): string {
  if (typeof given === 'string') return given.includes('\n') ? block(given) : quoted(given);
  if (Array.isArray(given)) return `[${given.map(valueOf).join(', ')}]`;
  if (typeof given === 'object' && given !== null) {
    const inner = Object.entries(given).map(([name, value]) => `${keyOf(name)} = ${valueOf(value)}`);
    return `{ ${inner.join(', ')} }`;
  }
  return String(given);
}

/** JSON's escapes are TOML's, except that TOML wants DEL escaped. */
function quoted(text: string): string {
  return JSON.stringify(text.toWellFormed()).replaceAll('\u007F', String.raw`\u007F`);
}

function block(text: string): string {
  const whole = text.toWellFormed();
  if (!whole.includes("'''") && !whole.endsWith("'") && !control.test(whole)) return `'''\n${whole}'''`;
  const lines = whole.split('\n').map((line) => quoted(line).slice(1, -1));
  return `"""\n${lines.join('\n')}"""`;
}
