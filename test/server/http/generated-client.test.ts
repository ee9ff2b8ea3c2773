import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { basic } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';

const run = promisify(execFile);
const modules = join(import.meta.dirname, '../../../node_modules');

/** What somebody writes against a client that was made of the document: no cast in it, and identifiers go back as they came. */
const program = `
import {
  defaults,
  fetchBuildRequest,
  createProject,
  createBuildRequest,
  createSuite,
  createSuiteDependency,
  createDependency,
} from './client.ts';

defaults.baseUrl = process.env.ADDRESS ?? '';
defaults.headers = { authorization: process.env.CREDENTIALS };

const project = await createProject({ name: 'typed', repository_url: 'git@example.org:typed.git' });
if (project.status !== 201) throw new Error(JSON.stringify(project.data.error));
const { id_str: projectId } = project.data.response;
const suite = await createSuite(projectId, { name: 'unit', command: 'npm ci && npm test' });
if (suite.status !== 201) throw new Error(JSON.stringify(suite.data.error));
const request = await createBuildRequest(projectId, { commit_ref: 'main' });
if (request.status !== 201) throw new Error(JSON.stringify(request.data.error));
const fetched = await fetchBuildRequest(projectId, request.data.response.id_str);
if (fetched.status !== 200) throw new Error(JSON.stringify(fetched.data.error));
const dependency = await createDependency({ name: 'lua', command: 'make install PREFIX=/srv/dependency' });
if (dependency.status !== 201) throw new Error(JSON.stringify(dependency.data.error));
const { id_ref: dependencyId } = dependency.data.response;
const attached = await createSuiteDependency(projectId, suite.data.response.id_str, {
  dependency_id: dependencyId,
});
if (attached.status !== 201) throw new Error(JSON.stringify(attached.data.error));
console.log([projectId, suite.data.response.command, fetched.data.response.id_str].join('\\n'));
`;

const settings = {
  compilerOptions: {
    module: 'nodenext',
    target: 'esnext',
    lib: ['esnext', 'dom', 'dom.iterable'],
    types: ['node'],
    strict: true,
    noEmit: true,
    allowImportingTsExtensions: true,
  },
  files: ['program.ts'],
};

describeServiceOnOne('a client that is generated from the document', (service) => {
  test('compiles, and creates a project and a build without a cast', async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-client-'));
    context.after(() => rmSync(folder, { recursive: true }));
    const alice = await service.user();
    symlinkSync(modules, join(folder, 'node_modules'));
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(join(folder, 'openapi.json'), (await service.api.get('/openapi.json')).text);
    writeFileSync(join(folder, 'program.ts'), program);
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(settings));
    const env = {
      ...process.env,
      ADDRESS: service.address,
      CREDENTIALS: basic(alice.credentials),
      NODE_EXTRA_CA_CERTS: join(service.folder, 'tls', 'cert.pem'),
    };
    const node = (...args: string[]): Promise<{ stdout: string }> =>
      run(process.execPath, args, { cwd: folder, env }).catch((error: { stdout: string; stderr: string }) =>
        assert.fail(`${error.stdout}\n${error.stderr}`),
      );
    await node(join(modules, 'oazapfts', 'dist', 'cli.js'), 'openapi.json', 'client.ts');
    await node(join(modules, 'typescript', 'bin', 'tsc'));
    const { stdout } = await node('program.ts');
    const [projectId = '', command, requestId = ''] = stdout.trimEnd().split('\n');
    assert.equal(command, 'npm ci && npm test');
    assert.ok(BigInt(projectId) > 2n ** 53n);
    const requests = (await alice.get(`/projects/${projectId}/build_requests`)).list;
    assert.deepEqual(
      requests.map(({ id_str: id }) => id),
      [requestId],
    );
  });
});
