import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beginSignIn, endSignIn, outOfBand } from '../src/cli/client/sign-in.ts';
import { startProject } from './support/project.ts';
import { untilIdle } from './support/idle.ts';
import { median, round, type Benchmark } from './support/report.ts';
import type { Service } from './support/servers.ts';
import { signIn } from './support/signing-in.ts';

const size = 100 * 1024 * 1024;
const command = `yes 'a line of a log, about as long as lines of logs are: compiled something, tested something' | head -c ${size}`;
const program = join(import.meta.dirname, '../bin/headrace');

/** The waits of a developer: for the result of `status`, and for a long log, against curl. */
export const cli: Benchmark = {
  name: 'cli',
  async run() {
    await using stack = new AsyncDisposableStack();
    const project = await startProject();
    stack.defer(() => project.stop());
    const { service } = project;
    await project.command(command);
    const build = await project.build();
    await project.end(build);
    await untilIdle(service.pid); // the server packs the log
    const ca = join(service.dataDir, 'tls', 'cert.pem');
    const token = await tokenOf(service, ca);
    const env = {
      ...process.env,
      HEADRACE_URL: service.url,
      HEADRACE_TOKEN: token,
      HEADRACE_CA_FILE: ca,
      HEADRACE_PROJECT: 'bench',
    };
    const id = build.split('/').at(-1) ?? '';
    const asked = ['-sS', '--cacert', ca, '-H', `Authorization: Bearer ${token}`, `${service.url}${build}/log.txt`];
    const [status, ours, theirs]: number[][] = [[], [], []];
    for (let turn = 0; turn < 9; turn += 1) {
      status?.push(await timed(program, ['status', project.sha], env));
      ours?.push(await timed(program, ['logs', id], env));
      theirs?.push(await timed('curl', asked, env));
    }
    const [copied, curled] = [median(ours ?? []), median(theirs ?? [])];
    return [
      {
        what: 'headrace status, from its start to its end, ms',
        value: median(status ?? []),
        limit: { atMost: 250 },
        from: 'median of 9',
      },
      {
        what: 'headrace logs of 100 MB, share of the rate of curl',
        value: curled / copied,
        limit: { atLeast: 0.7 },
        from: `${round(copied)} ms against ${round(curled)} ms`,
      },
    ];
  },
};

async function timed(file: string, args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const startedAt = performance.now();
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.resume();
  const [code] = (await once(child, 'close')) as [number];
  if (code !== 0) throw new Error(`${file} ended with ${code}`);
  return performance.now() - startedAt;
}

/** As `headrace login` gets it. */
async function tokenOf(service: Service, ca: string): Promise<string> {
  const server = { url: service.url, ca: readFileSync(ca, 'utf8') };
  const cookie = await signIn(service);
  const begun = beginSignIn(server, outOfBand);
  const page = await (await fetch(begun.url, { headers: { cookie } })).text();
  const [, asked = ''] = /<form method="post" action="\/oauth2\/authorize"[^>]*>(.*?)<\/form>/s.exec(page) ?? [];
  const hidden = asked.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g);
  const body = new URLSearchParams({ decision: 'allow' });
  for (const [, name = '', value = ''] of hidden) body.append(name, value.replaceAll('&amp;', '&'));
  const allowed = await fetch(`${service.url}/oauth2/authorize`, { method: 'POST', body, headers: { cookie } });
  const [, code = ''] = /<code[^>]*>(hrc_[\w-]+)<\/code>/.exec(await allowed.text()) ?? [];
  return endSignIn(server, begun, code);
}
