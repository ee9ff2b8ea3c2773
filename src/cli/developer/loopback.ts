import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Failure } from '../client/failure.ts';
import { http } from '../../shared/lib/http.ts';

/** A user may have to sign in first, and search for the password. */
const patienceMs = 10 * 60 * 1000;

export interface CodeListener extends AsyncDisposable {
  redirect: string;
  /** The code that the browser brings with this state. A code with another state is not ours. */
  code(state: string): Promise<string>;
}

/** RFC 8252 section 7.3: listens on a free port of the loopback interface for the browser to come back. */
export async function awaitCode(): Promise<CodeListener> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  promise.catch(() => {}); // `code` has the error
  let expected: string | undefined;
  const server = http.createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
    const isCallback = request.method === 'GET' && pathname === '/callback' && searchParams.get('state') === expected;
    const code = searchParams.get('code');
    const answer = (status: number, text: string): void => {
      response.writeHead(status, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': "default-src 'none'",
        connection: 'close',
      });
      response.end(`<!doctype html><title>headrace</title><p>${text}</p>\n`);
    };
    if (!isCallback || expected === undefined) return answer(404, 'This page does not exist.');
    if (code === null || code === '') {
      answer(200, 'Access was not allowed. You can close this page.');
      reject(new Failure('refused', 'Access was not allowed in the browser.'));
      return undefined;
    }
    answer(200, 'You are signed in on the command line. You can close this page.');
    resolve(code);
    return undefined;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const timer = setTimeout(
    () => reject(new Failure('refused', 'The browser did not return. Try headrace login --no-browser.')),
    patienceMs,
  );
  return {
    redirect: `http://127.0.0.1:${port}/callback`,
    code(state) {
      expected = state;
      return promise;
    },
    async [Symbol.asyncDispose]() {
      clearTimeout(timer);
      server.close();
      server.closeIdleConnections();
    },
  };
}

/** A missing browser is not an error: the address is shown as well. */
export function openBrowser(url: string, env: NodeJS.ProcessEnv): void {
  const { BROWSER: chosen = '' } = env;
  const usual = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(chosen === '' ? usual : chosen, [url], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}
