import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { before, test, type TestContext } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { lacks } from '../support/machine.ts';
import { verify } from '../support/verifier.ts';

const api = 'curl -sS --max-time 20 --cacert "$HEADRACE_CA_FILE" -H "Authorization: Bearer $HEADRACE_TOKEN"';
const own = '$HEADRACE_URL/projects/$HEADRACE_PROJECT_ID';

onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_BUILD_NETWORK: 'internet' });
    project = await installation.project();
  });

  const built = async (t: TestContext, command: string, more: Record<string, string>): Promise<Build> => {
    const suite = await project.suite(t, `suite ${Math.random()}`, command, more);
    await project.build(await project.repository.commit({ message: 'Again' }));
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    assert.ok(build);
    return build;
  };
  const artifact = async (build: Build, path: string): Promise<string> => {
    const at = `${project.path}/builds/${build.id_str}/artifacts`;
    const found = (await installation.api().get<Item[]>(at)).find((one) => one.path === path);
    return installation.api().text(`${at}/${found?.id_str}`);
  };
  const skip = lacks('isolated runner', 'tun', 'curl');

  test('a build proves who it is, calls the API, and leaves nothing that lives on', { skip }, async (t) => {
    const port = await listening(t, '127.0.0.1');
    const outer = Object.values(networkInterfaces())
      .flatMap((all) => all ?? [])
      .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
    const outerPort = outer === undefined ? port : await listening(t, outer);
    const command = [
      'printf %s "$CLOUD_TOKEN" > identity.txt',
      'printf %s "$HEADRACE_TOKEN" > credential.txt',
      'echo "identity $CLOUD_TOKEN, signed $(printf %s "$CLOUD_TOKEN" | cut -d. -f3)"',
      'echo "credential $HEADRACE_TOKEN"',
      `${api} "${own}/builds/$HEADRACE_BUILD_ID" > seen.json`,
      `for at in suites environment_variables hooks; do ${api} -o /dev/null -w "$at %{http_code}\\n" "${own}/$at"; done`,
      `${api} -o /dev/null -w "start %{http_code}\\n" -d commit_ref=main "${own}/build_requests"`,
      `${api} -o /dev/null -w "token %{http_code}\\n" -d name=x "$HEADRACE_URL/tokens"`,
      // Monitoring is open to programs of the machine, which a build is not.
      `curl -sS --cacert "$HEADRACE_CA_FILE" -o /dev/null -w "metrics %{http_code}\\n" "$HEADRACE_URL/metrics"`,
      // What else listens on the machine.
      `curl -s --max-time 5 http://127.0.0.1:${port} && echo reached || echo closed`,
      `curl -s --max-time 5 http://${outer ?? '127.0.0.1'}:${outerPort} && echo reached || echo closed`,
      'curl -s --max-time 5 http://10.0.2.2:$(echo "$HEADRACE_URL" | sed "s/.*://") && echo reached || echo closed',
      'exit 4',
    ].join('\n');
    const build = await built(t, command, {
      api_token: 'read',
      'id_tokens[0][variable]': 'CLOUD_TOKEN',
      'id_tokens[0][audience]': 'cloud.example.org',
      'artifacts[]': '*.txt\nseen.json',
    });
    const log = await project.log(build);
    assert.equal(build.exit_status, 4, log);
    assert.match(log, /^identity \[masked\], signed \[masked\]\ncredential \[masked\]$/m);
    assert.match(
      log,
      /^suites 401\nenvironment_variables 401\nhooks 401\nstart 401\ntoken 401\nmetrics 401\nclosed\nclosed\nclosed$/m,
    );
    const seen = JSON.parse(await artifact(build, 'seen.json')) as { response: Build };
    assert.deepEqual([seen.response.id_str, seen.response.build_state], [build.id_str, 'running']);

    const { api: client } = installation.serving();
    const claims = await verify(client, await artifact(build, 'identity.txt'), { audience: 'cloud.example.org' });
    assert.equal(claims.sub, `project:${project.id_str}:sha:${claims['sha']}`);
    assert.equal(claims['build_id'], build.id_str);
    assert.equal(claims.iss, installation.address());
    const authorization = `Bearer ${await artifact(build, 'credential.txt')}`;
    assert.equal((await client.get(project.path, { headers: { authorization } })).status, 401);

    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const { out } = await developer.run(
      ['shell', build.id_str],
      'echo "[$CLOUD_TOKEN] [$HEADRACE_TOKEN] [$HEADRACE_URL]"; ls /run/headrace 2>&1',
    );
    assert.match(out, /^\[\] \[\] \[\]\n.*No such file/);
  });

  test('a build of a branch says so, and one that may write starts another', { skip }, async (t) => {
    const suite = await project.suite(t, 'starter', '', {
      api_token: 'write',
      manual: 'true',
      'steps[0][name]': 'start',
      'steps[0][command]': `${api} -d commit_ref=main "${own}/build_requests" > made.json; cat made.json`,
      'steps[1][name]': 'tell',
      'steps[1][command]': 'printf %s "$PROOF" > proof.txt',
      'id_tokens[0][variable]': 'PROOF',
      'id_tokens[0][audience]': 'x',
      'artifacts[]': 'proof.txt\nmade.json',
    });
    const request = await project
      .api()
      .post(`${project.path}/build_requests`, { commit_ref: 'main', 'suites[]': suite });
    const ended = await project.end(request);
    assert.equal(ended.build_state, 'passed');
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    assert.ok(build);
    const made = JSON.parse(await artifact(build, 'made.json')) as { response: Item };
    await project.end(made.response);
    const { sub } = await verify(installation.serving().api, await artifact(build, 'proof.txt'));
    assert.equal(sub, `project:${project.id_str}:ref:refs/heads/main`);
  });
});

async function listening(t: TestContext, host: string): Promise<number> {
  const server = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'));
  server.listen(0, host);
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as { port: number }).port;
}
