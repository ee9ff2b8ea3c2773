/**
 * Tries every target in turn with inputs that nobody has tried before, for as long as it is given.
 *
 * npm run fuzz -- [--seconds N] [TARGET…]
 */
import { parseArgs } from 'node:util';
import * as fc from 'fast-check';
import { keepSeed } from './seeds.ts';
import type { OpenTarget, Target } from './target.ts';
import { targets } from './targets.ts';

const turnMs = 2000;
/** Some inputs are long, and their seed brings them back. */
const longestReport = 4000;

const { values, positionals } = parseArgs({
  options: { seconds: { type: 'string', default: '60' } },
  allowPositionals: true,
});
const seconds = Number(values.seconds);
const unknown = positionals.filter((name) => !targets.some((target) => target.name === name));
if (!(seconds > 0) || unknown.length > 0) {
  console.error(
    `usage: npm run fuzz -- [--seconds N] [TARGET…]\ntargets: ${targets.map(({ name }) => name).join(' ')}`,
  );
  process.exit(2);
}
const chosen = targets.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const counts = new Map<string, number>();

/** One turn of one target; answers whether all went well. */
async function turn({ name }: Target, { property }: OpenTarget, untilMs: number): Promise<boolean> {
  const details = await fc.check(property, {
    numRuns: 1_000_000_000,
    interruptAfterTimeLimit: Math.max(1, Math.min(turnMs, untilMs - Date.now())),
    seed: Math.floor(Math.random() * 2 ** 31),
  });
  counts.set(name, (counts.get(name) ?? 0) + details.numRuns);
  if (!details.failed || details.counterexamplePath === null) return true;
  const error = details.errorInstance;
  const found = (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? '';
  keepSeed(name, { seed: details.seed, path: details.counterexamplePath, found });
  console.log((fc.defaultReportMessage(details) ?? found).slice(0, longestReport));
  return false;
}

const failed = new Set<string>();
const end = Date.now() + seconds * 1000;
const opened: [Target, OpenTarget][] = [];
try {
  for (const target of chosen) opened.push([target, await target.open()]);
  while (Date.now() < end && failed.size < chosen.length) {
    for (const [target, open] of opened) {
      if (failed.has(target.name) || Date.now() >= end) continue;
      if (!(await turn(target, open, end))) failed.add(target.name);
    }
  }
} finally {
  for (const [, open] of opened) await open.close?.();
}
for (const { name } of chosen)
  console.log(`${name}: ${counts.get(name) ?? 0} tries${failed.has(name) ? ', failed' : ''}`);
const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
console.log(
  failed.size === 0
    ? `All well: ${total} tries of ${chosen.length} targets in ${seconds} seconds.`
    : `Found something: ${[...failed].join(', ')}. The seeds are kept in fuzz/seeds/ and tried again by npm test.`,
);
process.exitCode = failed.size === 0 ? 0 : 1;
