import { rulesOf, type Condition } from './conditions.ts';
import { emptySuite, type Rule, type Suite, type Translation } from './model.ts';

/** When suites run: at some events, limited by a condition. */
export interface Occasion {
  events: readonly string[];
  condition?: Condition | undefined;
  rules?: Rule[];
}

const suffixes: Readonly<Record<string, string>> = {
  pull_request: 'pull request',
  tag: 'tag',
  schedule: 'schedule',
  manual: 'by hand',
};

/**
 * All rules of a suite must match, so it is written once for each group of events with the same limits. Without an
 * occasion, suites run by hand only.
 */
export function byOccasion(translation: Translation, occasions: readonly Occasion[]): Translation {
  const groups = Map.groupBy(occasions, ({ condition, rules = [] }) => JSON.stringify([condition ?? true, rules]));
  const isByHand = occasions.some(({ events }) => events.includes('manual'));
  const all = Array.from(groups.values(), (group) => {
    const [{ condition, rules = [] } = {}] = group;
    const events = [...new Set(group.flatMap((one) => one.events))];
    if (!isByHand && events.includes('push')) events.push('manual');
    return { events, rules: [...rules, ...((condition && rulesOf(condition)) ?? [])] };
  });
  if (all.length === 0) for (const suite of translation.suites) suite.fields.manual = true;
  if (all.length <= 1) {
    for (const suite of translation.suites) suite.rules.unshift(...rulesFor(all[0]));
    return translation;
  }
  const copies = all.flatMap((occasion, at) => {
    const word = at === 0 ? '' : ` (${suffixes[occasion.events[0] ?? ''] ?? occasion.events[0] ?? at + 1})`;
    const named = (name: string): string => `${name}${word}`;
    return translation.suites.map((suite): Suite => {
      const rules = [...rulesFor(occasion), ...suite.rules];
      if (at === 0) return { ...suite, rules };
      const { files_from: from } = suite.fields;
      const fields = { extends: suite.name, ...(from !== undefined && { files_from: named(String(from)) }) };
      const { variables } = suite;
      return { ...emptySuite(named(suite.name)), fields, variables, needs: suite.needs.map(named), rules };
    });
  });
  return { ...translation, suites: copies };
}

const usual = ['push', 'poll', 'tag', 'pull_request', 'manual'];

function rulesFor(occasion: { events: readonly string[]; rules: Rule[] } | undefined): Rule[] {
  if (!occasion) return [];
  const { events, rules } = occasion;
  const value = events.length === 1 ? (events[0] ?? '') : `^(${events.join('|')})$`;
  const about = { subject: 'request.event', operator: events.length === 1 ? 'equals' : 'matches', value };
  return usual.every((event) => events.includes(event)) ? rules : [about, ...rules];
}
