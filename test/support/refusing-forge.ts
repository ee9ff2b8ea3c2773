import type { Interference } from './fake-forge.ts';

/** Every kind of answer that a forge can give in the place of the right one. */
export const answers: Record<string, Interference> = {
  'refuses the token': () => ({ status: 401, body: { message: 'Bad credentials' } }),
  forbids: () => ({ status: 403, body: { message: 'token does not have at least one of required scope(s)' } }),
  'has no such thing': () => ({ status: 404, body: { message: 'Not Found' } }),
  'has it no longer': () => ({ status: 410, body: { message: 'Gone' } }),
  'takes it for a mistake': () => ({ status: 422, body: { message: 'Validation Failed' } }),
  'finds a conflict': () => ({ status: 409, body: { message: 'Conflict' } }),
  'redirects elsewhere': () => ({ status: 302, headers: { location: 'http://elsewhere.example.org/' } }),
  'redirects to itself': ({ path }) => ({ status: 301, headers: { location: path } }),
  'limits its rate': () => ({ status: 429, headers: { 'retry-after': '3600' }, body: { message: 'Slow down' } }),
  'limits its rate for no time': () => ({ status: 429, body: { message: 'Slow down' } }),
  'limits its rate as GitHub does': () => ({
    status: 403,
    body: { message: 'You have exceeded a secondary rate limit. Please wait a few minutes before you try again.' },
  }),
  fails: () => ({ status: 500, body: { message: 'Internal Server Error' } }),
  'is overloaded': () => ({ status: 503, headers: { 'retry-after': '0' } }),
  'breaks the connection': (_, response) => (response.destroy(), 'answered'),
  'answers with a page': (_, response) => (response.writeHead(200).end('<html>Welcome'), 'answered'),
  'answers with nothing': () => ({ status: 204 }),
  'answers with an empty list': () => ({ status: 200, body: [] }),
  'answers with an empty object': () => ({ status: 200, body: {} }),
  'says that there is always one more page': ({ method, path }) =>
    method === 'GET' && /keys|hooks/.test(path)
      ? { status: 200, headers: { link: '<https://x/>; rel="next"', 'x-total-count': '1000000' }, body: [noKey] }
      : undefined,
  'says that there are more, and has none': ({ method, path }) =>
    method === 'GET' && /keys|hooks/.test(path)
      ? { status: 200, headers: { 'x-total-count': '1000000' }, body: [] }
      : undefined,
};

/** Also a hook. */
const noKey = { id: 1, key: 'ssh-ed25519 AAAA', active: true, url: 'http://x/', config: { url: 'http://x/' } };
