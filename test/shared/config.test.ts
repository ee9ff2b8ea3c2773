import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { rootCertificates } from 'node:tls';
import { buildVariables } from '../../src/shared/domain/build-variables.ts';
import { ConfigError, readBlobLocation, readConfig } from '../../src/shared/config.ts';
import { temporaryFolder } from '../support/folders.ts';
import { lacks } from '../support/machine.ts';

describe('the configuration', () => {
  const folders: string[] = [];
  after(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));

  function read(sources: { flags?: Record<string, string>; env?: Record<string, string>; file?: string } = {}) {
    const folder = temporaryFolder();
    folders.push(folder);
    if (sources.file !== undefined) writeFileSync(join(folder, 'headrace.toml'), sources.file);
    return readConfig({ flags: { data_dir: folder, ...sources.flags }, env: sources.env ?? {} });
  }
  const refused = (sources: Parameters<typeof read>[0], message: RegExp, secret?: string): void => {
    assert.throws(
      () => read(sources),
      (error) => {
        assert.ok(error instanceof ConfigError, String(error));
        assert.match(error.message, message);
        if (secret !== undefined) assert.ok(!error.message.includes(secret));
        return true;
      },
    );
  };

  test('takes a folder or a place in S3 for blobs', () => {
    const placeOf = (url: string) => readBlobLocation(read({ env: { HEADRACE_BLOB_URL: url } }).blob_url ?? '', 'x');
    assert.deepEqual(placeOf('/srv/blobs'), { folder: '/srv/blobs' });
    assert.deepEqual(placeOf('file:///srv/my%20blobs'), { folder: '/srv/my blobs' });
    const bucket = { bucket: 'team.blobs-1', prefix: '', endpoint: undefined, region: undefined };
    assert.deepEqual(placeOf('s3://team.blobs-1'), { ...bucket, pathStyle: false, browsers: true });
    const [endpoint, region] = ['http://10.1.2.3:9000', 'eu-central-1'];
    const full = `s3://team.blobs-1/ci//main/?endpoint=${endpoint}&region=${region}&path_style=true`;
    const expected = { ...bucket, prefix: 'ci/main/', endpoint, region, pathStyle: true, browsers: false };
    assert.deepEqual(placeOf(full), expected);
    assert.equal(read({ env: { HEADRACE_BLOB_URL: full } }).build_paths.length, 0);
  });

  test('refuses a place in S3 that cannot be meant, without repeating it', () => {
    const endpoint = 'endpoint=https://s3.example.org';
    for (const [url, words] of [
      ['s3://AKIA:HUSH@bucket/p', /the address must not contain credentials\. Set AWS_ACCESS_KEY_ID/],
      ['s3:///HUSH', /name of the bucket/],
      ['s3://b/HUSH', /name of the bucket/],
      ['s3://bucket/../HUSH%2f..', /the prefix/],
      ['s3://bucket/a%00HUSH', /the prefix/],
      ['s3://bucket?secret=HUSH', /only have endpoint/],
      [`s3://bucket?${endpoint}&${endpoint}`, /endpoint more than once/],
      ['s3://bucket?endpoint=HUSH', /endpoint must be/],
      ['s3://bucket?endpoint=https://me:HUSH@s3.example.org', /endpoint must be/],
      ['s3://bucket?endpoint=file:///HUSH', /endpoint must be/],
      ['s3://bucket?region=a/HUSH', /region must be/],
      ['s3://bucket?path_style=HUSH', /path_style must be true or false/],
      ['s3://bucket/p#HUSH', /#/],
      ['https://HUSH.s3.amazonaws.com', /must be the path of a folder, a file:\/\/ address, or s3:\/\/BUCKET\/PREFIX/],
    ] as const)
      refused({ env: { HEADRACE_BLOB_URL: url } }, words, 'HUSH');
  });

  test('takes flags over the environment over the file over defaults', () => {
    const file = 'port = 1003\nhost = "127.0.0.3"\nlog_level = "warn"\n';
    const env = { HEADRACE_PORT: '1002', HEADRACE_HOST: '127.0.0.2' };
    const { port, host, log_level: level, tls } = read({ file, env, flags: { port: '1001' } });
    assert.deepEqual([port, host, level, tls], [1001, '127.0.0.2', 'warn', 'on']);
    const { port: standard, host: local } = read();
    assert.deepEqual([standard, local], [8443, '127.0.0.1']);
  });

  test('reads the variables of builds at the start, and says what is wrong with them', () => {
    const folder = temporaryFolder();
    folders.push(folder);
    const file = join(folder, 'build.env');
    const named = { env: { HEADRACE_BUILD_ENV: file } };
    refused(named, /^HEADRACE_BUILD_ENV must be the path of a file of NAME=value lines/);
    writeFileSync(file, 'A=1\nHOME=HUSH\n');
    refused(named, /^build_env: .*build\.env, line 2: HOME is set for each build/, 'HUSH');
    writeFileSync(file, 'A=1\n');
    assert.equal(read(named).build_env, file);
  });

  test(
    'shows builds directories of the machine, but none that hides their own places or holds secrets',
    { skip: lacks('root') },
    () => {
      const shown = mkdtempSync('/opt/headrace-test-');
      const link = join(shown, 'link');
      symlinkSync('/proc', link);
      folders.push(shown);
      const paths = (value: string): Parameters<typeof read>[0] => ({ env: { HEADRACE_BUILD_PATHS: value } });
      assert.deepEqual(read(paths(`${shown}/, /opt:${shown}`)).build_paths, [shown, '/opt']);
      assert.deepEqual(read({ file: `build_paths = ["${shown}", "/opt"]` }).build_paths, [shown, '/opt']);
      assert.deepEqual(read(paths('')).build_paths, []);
      refused(paths('opt'), /^HEADRACE_BUILD_PATHS must be a list of absolute paths/);
      refused(paths(`${shown}/../opt`), /^HEADRACE_BUILD_PATHS must be a list of absolute paths/);
      refused(paths(`${shown}/missing`), /\/missing: there is no such directory/);
      for (const path of [
        '/',
        '/proc',
        '/proc/sys',
        '/sys/kernel',
        '/dev',
        '/etc',
        '/usr/share',
        '/tmp',
        '/home',
        '/var',
      ])
        refused(paths(path), /builds cannot be shown .*: builds have their own \/.*, or see it already/);
      refused(paths(link), /builds have their own \/proc/);
      const data = join(shown, 'deep', 'data');
      const key = join(shown, 'master.key');
      for (const path of [shown, data]) {
        mkdirSync(data, { recursive: true });
        const flags = { data_dir: data };
        refused({ ...paths(path), flags }, /it contains .*deep\/data, or is inside it, and builds must not see that/);
      }
      const env = { ...paths(shown)?.env, HEADRACE_MASTER_KEY_FILE: key };
      refused({ env }, /it contains .*master\.key, or is inside it/);
    },
  );

  test('opens private ranges to builds, of the only kind that they have a way to', () => {
    const allow = (value: string): Parameters<typeof read>[0] => ({ env: { HEADRACE_BUILD_ALLOW: value } });
    assert.deepEqual(read(allow('10.1.0.0/16, 192.168.7.9/32')).build_allow, ['10.1.0.0/16', '192.168.7.9/32']);
    assert.deepEqual(read(allow('')).build_allow, []);
    for (const value of ['10.1.0.0', '10.1.0.0/33', 'mirror.example', 'fd00::/8', '10.1.0.0/16; drop'])
      refused(allow(value), /^HEADRACE_BUILD_ALLOW must be a list of IPv4 ranges/);
  });

  test('says in words that the file of trusted certificates cannot be used', () => {
    const folder = temporaryFolder();
    folders.push(folder);
    const file = join(folder, 'ca.pem');
    const trust = { env: { HEADRACE_TRUST_FILE: file } };
    const words = /^HEADRACE_TRUST_FILE must be the path of a file that can be read, with certificates in PEM form$/;
    refused(trust, words);
    for (const text of ['', 'not a certificate', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n']) {
      writeFileSync(file, text);
      refused(trust, words);
    }
    writeFileSync(file, rootCertificates.slice(0, 2).join('\n'));
    assert.equal(read(trust).trust_file, file);
    const allowed = read({ env: { HEADRACE_GIT_ALLOW: '10.0.0.0/8 fd00::/8' } }).git_allow;
    assert.deepEqual(allowed, ['10.0.0.0/8', 'fd00::/8']);
  });

  test('takes the data folder from its flag, else the environment', () => {
    const folder = temporaryFolder();
    folders.push(folder);
    assert.equal(readConfig({ flags: {}, env: { HEADRACE_DATA_DIR: folder } }).data_dir, folder);
    assert.equal(readConfig({ flags: { data_dir: '/x' }, env: { HEADRACE_DATA_DIR: folder } }).data_dir, '/x');
  });

  test('takes a file from elsewhere, which must exist', () => {
    const folder = temporaryFolder();
    folders.push(folder);
    const file = join(folder, 'other.toml');
    refused({ flags: { config: file } }, /--config .*other\.toml/);
    writeFileSync(file, 'webhook_allow = ["10.0.0.0/8", "::1/128"]');
    assert.deepEqual(read({ flags: { config: file } }).webhook_allow, ['10.0.0.0/8', '::1/128']);
  });

  test('names what it does not know', () => {
    refused({ env: { HEADRACE_PROT: '1' } }, /^HEADRACE_PROT is not a setting/);
    refused({ file: 'prot = 1' }, /^prot in .*headrace\.toml is not a setting/);
    refused({ file: 'port = = 1' }, /headrace\.toml/);
    refused({ file: '[port]\nx = 1' }, /^port in /);
  });

  test('knows what a build finds in its environment from a setting', () => {
    read({ env: Object.fromEntries(buildVariables.map((name) => [name, 'x'])) });
    refused({ env: { HEADRACE_SECRET: 'x' } }, /^HEADRACE_SECRET is not a setting/);
  });

  test('names what is wrong and keeps its value to itself', () => {
    refused({ flags: { port: '65536' } }, /^--port must be a whole number/);
    refused({ env: { HEADRACE_PORT: '' } }, /^HEADRACE_PORT must be/);
    refused({ file: 'log_level = "loud"' }, /^log_level in .* must be one of trace/);
    refused({ env: { HEADRACE_DATABASE_URL: 'mysql://u:hunter2@h/d' } }, /^HEADRACE_DATABASE_URL must be/, 'hunter2');
    refused({ env: { HEADRACE_METRICS_TOKEN: 'short-one' } }, /^HEADRACE_METRICS_TOKEN must be/, 'short-one');
    refused({ env: { HEADRACE_TLS_CERT: '/nonexistent' } }, /^HEADRACE_TLS_CERT must be/);
    for (const ranges of [
      'everything',
      '10.0.0.0',
      '10.0.0/8',
      '10.0.0.0/33',
      '::/129',
      '10.0.0.0/8/8',
      'fe80::%1/64',
    ]) {
      refused({ env: { HEADRACE_WEBHOOK_ALLOW: ranges } }, /^HEADRACE_WEBHOOK_ALLOW must be a list of CIDR ranges/);
    }
    refused({ env: { HEADRACE_BASE_URL: 'ftp://x' } }, /^HEADRACE_BASE_URL must be/);
  });

  test('goes without TLS only where no network is in between', () => {
    for (const host of ['127.0.0.1', '127.9.9.9', '::1', 'localhost', '/run/headrace.sock']) {
      assert.equal(read({ env: { HEADRACE_TLS: 'off', HEADRACE_HOST: host } }).tls, 'off');
    }
    for (const host of ['0.0.0.0', '::', '10.0.0.1', 'example.org', '127.0.0.1.example.org']) {
      refused({ env: { HEADRACE_TLS: 'off', HEADRACE_HOST: host } }, /loopback/);
    }
  });

  test('wants all that an issuer needs, over TLS', () => {
    const issuer = { HEADRACE_OIDC_ISSUER: 'https://login.example.org/acme' };
    const named = { ...issuer, HEADRACE_OIDC_CLIENT_ID: 'headrace' };
    const whole = { ...named, HEADRACE_OIDC_CLIENT_SECRET: 'HUSH', HEADRACE_BASE_URL: 'https://ci.example.org' };
    refused({ env: issuer }, /oidc_issuer needs oidc_client_id/);
    refused({ env: named }, /one of oidc_client_secret and oidc_client_secret_file/);
    refused({ env: { ...named, HEADRACE_OIDC_CLIENT_SECRET: 'HUSH' } }, /oidc_issuer needs base_url/, 'HUSH');
    refused({ env: { ...whole, HEADRACE_OIDC_CLIENT_SECRET_FILE: '/nowhere' } }, /OIDC_CLIENT_SECRET_FILE must be/);
    refused({ env: { ...whole, HEADRACE_OIDC_CLIENT_SECRET_FILE: import.meta.filename } }, /one of oidc/, 'HUSH');
    refused({ env: { ...whole, HEADRACE_OIDC_ISSUER: 'http://login.example.org' } }, /OIDC_ISSUER must be an https/);
    refused({ env: { ...whole, HEADRACE_OIDC_SCOPES: 'email' } }, /openid among them/);
    const blank = { HEADRACE_OIDC_ALLOWED_GROUPS: '', HEADRACE_OIDC_ALLOWED_DOMAINS: ' a.example, b.example ' };
    const config = read({ env: { ...whole, ...blank } });
    assert.deepEqual([config.oidc_allowed_groups, config.oidc_allowed_domains], [[], ['a.example', 'b.example']]);
    assert.deepEqual([config.passwords, config.oidc_sign_up, config.oidc_groups_claim], ['on', 'on', 'groups']);
  });

  test('wants a host name only for artifacts', () => {
    const base = { HEADRACE_BASE_URL: 'https://ci.example.org' };
    for (const good of [
      'https://files.example.net',
      'https://files.ci.example.org:8443/',
      'https://artifacts.localhost',
    ])
      assert.equal(read({ env: { ...base, HEADRACE_ARTIFACT_URL: good } }).artifact_url, good);
    for (const bad of [
      'files.example.net',
      'ftp://files.example.net',
      'https://files.example.net/path',
      'https://files.example.net/?x',
      'https://me:HUSH@files.example.net',
      'https://10.0.0.1',
      'https://[::1]:8443',
      'https://0x7f.1',
      'https://localhost:8443',
      'https://*.example.net',
    ])
      refused({ env: { ...base, HEADRACE_ARTIFACT_URL: bad } }, /^HEADRACE_ARTIFACT_URL must be an https:\/\//, 'HUSH');
    for (const same of ['https://ci.example.org', 'https://CI.example.org.:9000', 'https://ci%2eexample.org'])
      refused({ env: { ...base, HEADRACE_ARTIFACT_URL: same } }, /artifact_url: its host name is that of base_url/);
    refused({ env: { HEADRACE_ARTIFACT_URL: 'https://files.example.net' } }, /artifact_url: it needs base_url/);
    refused({ env: { ...base, HEADRACE_ARTIFACT_URL: 'http://files.example.net' } }, /it must begin with https:/);
  });

  test('wants a certificate and its key together', () => {
    refused({ env: { HEADRACE_TLS_CERT: import.meta.filename } }, /tls_key/);
  });
});
