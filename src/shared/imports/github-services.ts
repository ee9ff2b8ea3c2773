import { textIn, type Job } from './github-values.ts';
import { firstOf, isScalar, tableOf, textsOf, type Path, type Table } from './model.ts';
import { addService } from './parts.ts';

export function readService(job: Job, name: string, table: Table, path: Path): void {
  const { suite, tally } = job;
  const image = textIn(job, firstOf(table.image) ?? '');
  const variables = Object.entries(tableOf(table.env)).map(([key, value]) => {
    const text = textIn(job, isScalar(value) ? String(value) : '');
    const [, from] = text && 'shell' in text ? (/^\$\{(\w+)\}$/.exec(text.shell) ?? []) : [];
    return from === undefined ? { name: key, content: text && 'text' in text ? text.text : '' } : { name: key, from };
  });
  if (!image) return tally.lose(suite, path, undefined, 'its image is not known here');
  const ready = healthCommand(firstOf(table.options) ?? '');
  const problem = addService(suite, {
    name,
    image: 'text' in image ? image.text : image.shell,
    ...(ready !== undefined && { ready_command: ready }),
    variables,
    notes: [],
  });
  if (problem !== undefined) return tally.lose(suite, path, undefined, problem);
  tally.keep();
  const service = suite.services.at(-1) ?? suite;
  for (const port of textsOf(table.ports)) {
    const [outer, inner = outer] = port.replace(/\/(?:tcp|udp)$/, '').split(':');
    if (outer !== inner) tally.lose(service, [...path, 'ports'], port, `it listens at its own port ${inner}`);
  }
  const rest = (firstOf(table.options) ?? '').replaceAll(/--health-[\w-]+(?:=|\s+)(?:"[^"]*"|'[^']*'|\S+)/g, '').trim();
  if (rest !== '')
    tally.lose(
      service,
      [...path, 'options'],
      rest.replaceAll(/\s+/g, ' '),
      'a service has no options of a container engine',
    );
  for (const key of ['volumes', 'credentials'])
    if (table[key] !== undefined) tally.lose(service, [...path, key], undefined, `a service has no ${key} here`);
}

function healthCommand(options: string): string | undefined {
  const [, double, single, word] = /--health-cmd(?:=|\s+)(?:"([^"]*)"|'([^']*)'|(\S+))/.exec(options) ?? [];
  return double ?? single ?? word;
}
