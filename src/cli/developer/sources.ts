import type { Call } from './call.ts';
import type { Document } from './documents.ts';
import { WrongUse } from './errors.ts';
import { agrees } from './question.ts';
import { words } from './text.ts';

/**
 * Values that a document takes from the user's environment. The document may be untrusted, and could name any variable.
 * So each is shown, and a source that is new in the project is sent only if the user agrees.
 */
export interface Source {
  /** Blank for a variable of the project. */
  suite: string;
  variable: string;
  from_env: string;
}

/** Refuses missing sources, and secrets in the document itself. */
export function sourcesIn(document: Document, env: NodeJS.ProcessEnv): Source[] {
  const sources: Source[] = [];
  withVariables(document, (variable, suite) => {
    const [name, source] = [String(variable.name), variable.from_env];
    if (variable.content !== undefined && (source !== undefined || variable.secret !== false))
      throw new WrongUse(
        words`The file holds the value of ${name}. Refer to it with from_env = "NAME", or keep = true; a file may only contain values with secret = false.`,
      );
    if (source === undefined) return variable;
    if (typeof source !== 'string' || valueOf(source, env) === undefined)
      throw new WrongUse(
        words`${name} takes its value from ${JSON.stringify(source)} of your environment, which is not set.`,
      );
    sources.push({ suite, variable: name, from_env: source });
    return variable;
  });
  return sources;
}

export function withValues(document: Document, env: NodeJS.ProcessEnv): Document {
  return withVariables(document, (variable) =>
    variable.from_env === undefined ? variable : { ...variable, content: valueOf(variable.from_env, env) },
  );
}

function valueOf(source: unknown, env: NodeJS.ProcessEnv): string | undefined {
  return typeof source === 'string' && Object.hasOwn(env, source) ? env[source] : undefined;
}

export function newSources(sources: readonly Source[], current: Document): Source[] {
  const known = new Set<string>();
  withVariables(current, (variable, suite) => {
    known.add(JSON.stringify([suite, variable.name, variable.from_env]));
    return variable;
  });
  return sources.filter((one) => !known.has(JSON.stringify([one.suite, one.variable, one.from_env])));
}

/** Returns only if the user agrees to send these values. */
export async function allowSources(
  { client, screen }: Call,
  sources: readonly Source[],
  allowed: readonly string[] = [],
): Promise<void> {
  const asked = [...new Set(sources.map(({ from_env: name }) => name))].filter((name) => !allowed.includes(name));
  if (asked.length === 0) return;
  if (!process.stdin.isTTY || !screen.err.isTTY) {
    const flags = asked.map((name) => `--from-env ${name}`).join(' ');
    throw new WrongUse(
      words`The file takes variables of your environment that the project did not have before: ${asked.join(', ')}. To allow it, add ${flags}. No value was sent, and nothing was changed.`,
    );
  }
  if (!(await agrees(screen, words`Send ${asked.join(', ')} of your environment to ${client.url}?`)))
    throw new WrongUse('No value was sent, and nothing was changed.');
}

/** `suite` is blank for variables of the project. */
function withVariables(document: Document, change: (variable: Document, suite: string) => Document): Document {
  const changed = mapped(document, 'variables', (variable) => change(variable, ''));
  return mapped(changed, 'suites', (suite) =>
    mapped(suite, 'variables', (variable) => change(variable, String(suite.name))),
  );
}

const isTable = (item: unknown): item is Document => typeof item === 'object' && item !== null && !Array.isArray(item);

/** A value that is not a list stays, and the server refuses it. */
function mapped(document: Document, section: string, change: (entry: Document) => Document): Document {
  const list = document[section];
  if (!Array.isArray(list)) return document;
  return { ...document, [section]: list.map((item: unknown) => (isTable(item) ? change(item) : item)) };
}
