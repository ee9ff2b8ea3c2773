import type { Answer } from '../http/route.ts';

/** What the public must not see of a record, by the names of its fields. Other fields keep their values. */
const blanks: Readonly<Record<string, unknown>> = {
  ssh_public_key: '',
  created_by: '',
  approved_by: '',
  approvers: [],
  email: '',
  variables: {},
  parameters: [],
  withheld_variables: [],
  forge_id: null,
  forge_id_str: '',
  forge_repository: '',
  forge_state: 'none',
  forge_state_reason: '',
  forge_hook_id: null,
  forge_hook_id_str: '',
  forge_status_target_id: null,
  forge_status_target_id_str: '',
  last_check: null,
  // The settings of suites are closed.
  command: '',
};

export function publicView(answer: Answer): Answer {
  if ('record' in answer) return { ...answer, record: blanked(answer.record) };
  if ('page' in answer) return { page: { ...answer.page, items: answer.page.items.map((item) => blanked(item)) } };
  return answer;
}

function blanked<T>(value: T): T {
  if (Array.isArray(value)) return value.map((one: unknown) => blanked(one)) as T;
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, one]) => [
    name,
    isAddress(name, one) ? '' : Object.hasOwn(blanks, name) ? blankOf(name, one) : blanked(one as unknown),
  ]);
  return Object.fromEntries(entries) as T;
}

/** Some records list what others map by name. */
function blankOf(name: string, value: unknown): unknown {
  return Array.isArray(value) ? [] : blanks[name];
}

/** The sender of a hook is a name at its forge, or whatever a generic hook sent. */
function isAddress(name: string, value: unknown): boolean {
  return name.endsWith('_email') || (name === 'sender' && String(value).includes('@'));
}
