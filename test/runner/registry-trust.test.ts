import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { readRegistryTrust } from '../../src/runner/images/registry-trust.ts';
import { folderFor } from '../support/folders.ts';

const configurations: [why: string, text: string, isLookedAt: boolean][] = [
  ['nothing', '', true],
  ['names without a registry', 'unqualified-search-registries = ["docker.io"]', true],
  ['another registry', '[[registry]]\nprefix = "docker.io"\nlocation = "mirror.example"', true],
  ['one whose name begins alike', '[[registry]]\nlocation = "registry.example.org"', true],
  ['this one', '[[registry]]\nlocation = "registry.example:5000"', false],
  ['this one without its port', '[[registry]]\nlocation = "registry.example"', false],
  ['a part of this one', '[[registry]]\nlocation = "elsewhere"\nprefix = "registry.example:5000/team"', false],
  ['all of its domain', '[[registry]]\nprefix = "*.example"\nlocation = "mirror.test"', false],
  ['something unnamed', '[[registry]]\ninsecure = true', false],
  ['the older form', '[registries.insecure]\nregistries = []', false],
  ['what cannot be read', '[[registry', false],
];

test('a registry is looked at without the help of a program unless the machine says something about this very one', (t) => {
  const etc = folderFor((cleanUp) => t.after(cleanUp));
  mkdirSync(join(etc, 'containers'));
  const seen = configurations.map(([why, text]) => {
    writeFileSync(join(etc, 'containers/registries.conf'), text);
    return [why, readRegistryTrust({ etc }).contextFor('registry.example:5000') !== undefined];
  });
  assert.deepEqual(
    seen,
    configurations.map(([why, , isLookedAt]) => [why, isLookedAt]),
  );
});
