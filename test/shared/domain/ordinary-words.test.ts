import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOrdinary } from '../../../src/shared/domain/ordinary-words.ts';

test('ordinary words are known by their looks', () => {
  const ordinary = [
    'production',
    'Production\n',
    'DEVELOPMENT',
    'localhost:80',
    'us-east-1',
    'hello world',
    'größenwahn',
    '/usr/local/bin',
    'https://example.org',
    'database\nproduction\n',
  ];
  for (const text of ordinary) assert.ok(isOrdinary(text), text);
});

test('secrets are not', () => {
  const secrets = [
    '',
    ' \n',
    '123456789',
    'hunter2hunter2',
    's3cr3t-t0ken',
    'hrk_4c1dT3a',
    'xkqjzvbnmw',
    'aBcDeFgHiJ',
    '909627989308735488',
    'correct horse battery staple',
    '-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ\n-----END PRIVATE KEY-----\n',
    '{"password":"open sesame"}',
    'a'.repeat(32_768),
    '- '.repeat(16_384),
  ];
  for (const text of secrets) assert.ok(!isOrdinary(text), text.slice(0, 80));
});
