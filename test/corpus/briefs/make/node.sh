# Node: test runners, compilers, bundlers, linters and npm.

pair node-test-fails "✖ a name" <<'END'
mkdir test
echo '{"name":"slug","version":"1.0.0","type":"module","scripts":{"pretest":"node --version","test":"node --test --test-reporter=spec test/"}}' >package.json
echo 'export const slug = (text) => text.toLowerCase().replace(/\W+/g, "-").replace(/^-|-$/g, "");' >slug.js
cat >test/slug.test.js <<'EOF'
import { test, describe } from 'node:test';
import assert from 'node:assert/strict';
import { slug } from '../slug.js';
describe('slug', () => {
  test('a name', () => assert.equal(slug('Ada Lovelace!'), 'ada-lovelace'));
  test('an error without text', () => assert.throws(() => slug(null), TypeError));
  test('accents', { todo: 'fails' }, () => assert.equal(slug('é'), 'e'));
  test('later', { skip: 'Error: no server' }, () => {});
});
EOF
cat >test/slow.test.js <<'EOF'
import { test } from 'node:test';
for (const ms of [5, 15, 30]) test(`waits ${ms} ms`, async () => { console.error(`(node:${process.pid}) error rate 0 at ${Date.now()}`); await new Promise((r) => setTimeout(r, ms)); });
EOF
#plant
sed -i 's/\^-|-\$/^-/' slug.js
#run
npm test
END

pair node-module "Error: Cannot find module './setings'" <<'END'
echo '{"name":"server","version":"1.0.0","scripts":{"start":"node server.js"}}' >package.json
echo 'module.exports = { port: 0, log: "errors" };' >settings.js
cat >server.js <<'EOF'
const { Buffer } = require('node:buffer');
new (require('node:buffer').Buffer)(3);
const settings = require('./settings');
console.log(new Date().toISOString(), process.pid, 'logging', settings.log);
try { require('fast-json'); } catch (e) { console.warn('fast-json: ' + e.code + ', using JSON'); }
EOF
#plant
sed -i "s/'.\/settings'/'.\/setings'/" server.js
#run
npm start
END

pair node-rejection "Error: connect ECONNREFUSED 127.0.0.1:" <<'END'
cat >seed.mjs <<'EOF'
import net from 'node:net';
import http from 'node:http';
const server = http.createServer((q, a) => { a.statusCode = q.url === '/' ? 200 : 404; a.end('Error: none'); });
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const port = Number(process.env.SHIFT ?? 0) + server.address().port;
console.log('seeding', `http://127.0.0.1:${port}`);
for (const path of ['/', '/missing']) {
  const status = await new Promise((done, failed) => http.get({ port, path, host: '127.0.0.1' }, (a) => { a.resume(); done(a.statusCode); }).on('error', failed));
  console.log(`${process.uptime().toFixed(3)} ${path} answered ${status}`);
}
server.close();
EOF
echo 'SHIFT=0' >env
#plant
echo 'SHIFT=-1000' >env
#run
export $(cat env)
set -x
node --trace-warnings seed.mjs
END

pair node-heap "JavaScript heap out of memory" <<'END'
cat >index.js <<'EOF'
const rows = [];
for (let i = 0; i < Number(process.env.ROWS); i++) {
  rows.push(new Array(1000).fill(i + 0.5));
  if (i % 1000 === 0) console.log(`${i} rows, ${process.memoryUsage().rss} bytes, ${process.hrtime.bigint()}`);
}
console.log('indexed, 0 errors');
EOF
echo 'ROWS=3000' >env
#plant
echo 'ROWS=20000' >env
#run
export $(cat env) NODE_OPTIONS=--max-old-space-size=60
node --trace-gc index.js | cut -c1-120
test "${PIPESTATUS[0]}" = 0
END

pair mocha-timeout "Timeout of 200ms exceeded" <<'END'
modules mocha@10
mkdir test
cat >test/queue.js <<'EOF'
const assert = require('node:assert');
const { push, drain } = require('../queue');
describe('queue', function () {
  this.timeout(200);
  it('takes jobs', () => { console.warn(`  pid ${process.pid}: error handler missing`); assert.equal(push(1), 1); });
  it('drains', (done) => { drain(done); });
  it('fails on nothing', () => assert.throws(() => push()));
  it.skip('fails slowly', () => {});
  for (let i = 0; i < 4; i++) it(`is quick enough ${i}`, (done) => setTimeout(done, 40 * i));
});
EOF
cat >queue.js <<'EOF'
const jobs = [];
exports.push = (job) => { if (!job) throw new Error('no job'); return jobs.push(job); };
exports.drain = (done) => { while (jobs.length) jobs.pop(); done(); };
EOF
npm pkg set scripts.test='mocha --reporter spec --color'
#plant
sed -i 's/ done(); };/ };/' queue.js
#run
npm ci
npm test
END

pair jest-fails 'Expected: 1200' <<'END'
modules jest@29
cat >tax.js <<'EOF'
exports.withTax = (cents) => Math.round(cents * 1.2);
exports.parse = (text) => { if (!text) throw new Error('nothing to parse'); return Number(text); };
EOF
cat >tax.test.js <<'EOF'
const { withTax, parse } = require('./tax');
test('adds a tax', () => expect(withTax(1000)).toBe(1200));
test('nothing is nothing', () => expect(withTax(0)).toBe(0));
test('throws an error', () => { console.error('failed to parse, on purpose'); expect(() => parse('')).toThrow('nothing to parse'); });
test.skip('rounds', () => {});
EOF
for n in a b c; do echo "test('$n waits', () => new Promise((r) => setTimeout(r, 20 * Math.random())));" >$n.test.js; done
npm pkg set scripts.test='jest --ci --colors --coverage'
#plant
sed -i 's/1\.2/1.1/' tax.js
#run
npm test 2>&1
END

pair jest-coverage 'coverage threshold for lines' <<'END'
modules jest@29
mkdir src
echo 'exports.add = (a, b) => a + b;
exports.total = (list) => {
  let sum = 0;
  for (const x of list) sum += x;
  return sum;
};' >src/add.js
echo "const { add, total } = require('./add');
test('adds', () => expect(add(1, 2)).toBe(3));
test('totals', () => expect(total([1, 2])).toBe(3));" >src/add.test.js
npm pkg set jest.coverageThreshold.global.lines=90 --json
npm pkg set scripts.test='jest --coverage'
#plant
sed -i '3d' src/add.test.js
#run
npm test
END

pair vitest-fails "AssertionError: expected [ 1, 10, 2 ] to deeply equal [ 1, 2, 10 ]" <<'END'
modules vitest@2
mkdir src
echo 'export const sorted = (list: number[]) => [...list].sort((a, b) => a - b);
export const first = (list: number[]) => { if (!list.length) throw new Error("empty"); return list[0]; };' >src/list.ts
cat >src/list.test.ts <<'EOF'
import { expect, test, describe } from 'vitest';
import { sorted, first } from './list';
describe('list', () => {
  test('sorts numbers', () => expect(sorted([10, 2, 1])).toEqual([1, 2, 10]));
  test('has no first', () => { console.error('Error: only printed', process.pid, performance.now()); expect(() => first([])).toThrow('empty'); });
  test.todo('fails on text');
  test.skip('failed before', () => {});
});
EOF
echo "import { test } from 'vitest'; test('waits', () => new Promise((r) => setTimeout(r, 30)));" >src/wait.test.ts
#plant
sed -i 's/sort((a, b) => a - b)/sort()/' src/list.ts
#run
npx vitest run --reporter=verbose
END

pair ava-fails "[fail]: the port is ours" <<'END'
modules ava@6
cat >test.mjs <<'EOF'
import test from 'ava';
import { readFileSync } from 'node:fs';
const settings = JSON.parse(readFileSync('settings.json'));
test('the port is ours', (t) => t.deepEqual(settings, { port: 8080, level: 'error' }));
test('waits', async (t) => { t.log(`error log of ${process.pid}`); await new Promise((r) => setTimeout(r, 20)); t.pass(); });
test('throws', (t) => { t.throws(() => JSON.parse('{')); });
test.failing('is known to fail', (t) => t.is(1, 2));
test.todo('fails without a port');
EOF
echo '{"port":8080,"level":"error"}' >settings.json
#plant
echo '{"port":8081,"level":"error"}' >settings.json
#run
FORCE_COLOR=1 npx ava --verbose test.mjs
END

pair tap-fails "not ok 2 - the default language" <<'END'
mkdir test
cat >test/a.test.mjs <<'EOF'
import { language, words } from '../words.mjs';
import { strict as assert } from 'node:assert';
import { test } from 'node:test';
test('has words', () => assert.equal(words('a b').length, 2));
test('the default language', () => assert.equal(language(), 'en'));
test('an error for no text', () => assert.throws(() => words()));
test('accents', { todo: 'fails since 2.0' }, () => assert.equal(words('é'), 1));
EOF
echo "export const words = (text) => text.split(' ');
export const language = (l = 'en') => l;" >words.mjs
#plant
sed -i "s/'en'/'eng'/" words.mjs
#run
node --test --test-reporter=tap test/
echo "all of $(ls test | wc -l) files passed"
END

pair tsc-fails "error TS2345: Argument of type 'string' is not assignable to parameter of type 'number'." <<'END'
modules typescript@5
mkdir src
echo 'export function pad(value: number, width: number): string { return String(value).padStart(width, "0"); }
export class ParseError extends Error {}' >src/pad.ts
echo 'import { pad } from "./pad.js";
const now = new Date();
console.log("errors: none,", pad(now.getMinutes(), 2));' >src/main.ts
echo '{"compilerOptions":{"strict":true,"module":"nodenext","outDir":"out","extendedDiagnostics":true,"skipLibCheck":true,"types":[],"lib":["es2022","dom"]},"include":["src"]}' >tsconfig.json
npm pkg set type=module scripts.build='tsc --pretty' scripts.start='node out/main.js'
#plant
sed -i 's/, 2));/, "2"));/' src/main.ts
#run
npm run build
npm start
END

pair eslint-fails "'retires' is not defined" <<'END'
modules eslint@9
mkdir src
cat >eslint.config.js <<'EOF'
module.exports = [{ files: ['src/*.js'], languageOptions: { sourceType: 'commonjs', globals: { module: 'readonly' } }, rules: { 'no-undef': 'error', 'no-unused-vars': 'warn', eqeqeq: 'warn' } }];
EOF
for n in net disk; do printf 'const errors = [];\nfunction %s(retries) {\n  if (retries == 3) return null;\n  return retries + 1;\n}\nmodule.exports = { %s };\n' $n $n >src/$n.js; done
#plant
sed -i '4s/retries/retires/' src/disk.js
#run
npx eslint --version
npx eslint --color src
echo lint done
END

pair prettier-check "[warn] src/b.js" <<'END'
modules prettier@3
mkdir src
for n in a b c; do printf 'export const %s = { error: "none", list: [1, 2] };\n' $n >src/$n.js; done
echo 'export const broken = (' >src/old.js
echo 'src/old.js' >.prettierignore
#plant
printf "export const b = {error:'none',\n list: [1,2]}\n" >src/b.js
#run
npx prettier --version
npx prettier --check --log-level debug src 2>&1
END

pair oxlint-fails "eslint(no-dupe-keys): Duplicate key 'port'" <<'END'
modules oxlint@1
mkdir src
for n in net disk log; do printf 'const unusedError = 1;\nexport const %s = {\n  host: "db",\n  port: 5432,\n  name: "%s",\n};\n' $n $n >src/$n.js; done
#plant
sed -i '5s/name/port/' src/log.js
#run
npx oxlint -D correctness -W no-unused-vars src
END

pair webpack-missing "Module not found: Error: Can't resolve './pretzel'" <<'END'
modules webpack@5 webpack-cli@5
mkdir src
echo 'import { oven } from "./oven"; console.error(oven());' >src/index.js
echo 'export const oven = () => "error: cold"; try { require("fsevents-" + process.platform); } catch {}' >src/oven.js
npm pkg set scripts.build='webpack --progress'
#plant
sed -i '1i import "./pretzel";' src/oven.js
#run
npm run build
END

pair vite-build 'Could not resolve "./styles/main.css" from "src/main.js"' <<'END'
modules vite@5
mkdir -p src/style
echo '<!doctype html><title>Error page</title><div id="app"></div><script type="module" src="/src/main.js"></script>' >index.html
echo 'import "./style/main.css"; document.querySelector("#app").textContent = "failed: 0";' >src/main.js
echo 'body { colour: red; color: blue }' >src/style/main.css
npm pkg set scripts.build='vite build'
#plant
sed -i 's/style\/main/styles\/main/' src/main.js
#run
npm run build
END

pair rollup-export '"total" is not exported by "src/cart.js", imported by "src/main.js"' <<'END'
modules rollup@4
mkdir src
echo 'import { total } from "./cart.js"; import path from "node:path"; import "left-pad-missing"; eval("1"); console.log(total([1]), path.sep);' >src/main.js
echo 'export const total = (list) => list.length; export const error = this;' >src/cart.js
#plant
sed -i 's/const total/const totals/' src/cart.js
#run
npx rollup --version
npx rollup src/main.js --format es --file out/main.js
END

pair esbuild-syntax 'Expected ")" but found ";"' <<'END'
modules esbuild@0.21
mkdir src
for n in cart tax page; do printf 'export function %s(list) {\n  if (list === NaN) return "error";\n  return Math.max(...list, 0);\n}\n' $n >src/$n.js; done
#plant
sed -i '3s/0);/0;/' src/tax.js
#run
for f in src/*.js; do
  npx esbuild $f --minify --color=true --outfile=out/$(basename $f)
done
ls -l --full-time out
END

pair npm-ci-lock "Missing: ms@2.1.3 from lock file" <<'END'
modules left-pad@1.3.0
rm -rf node_modules
#plant
npm pkg set devDependencies.ms=2.1.3
#run
npm --version
npm ci --no-progress
node -e 'console.log(require("left-pad")("7", 3, "0"))'
END

pair npm-no-version "No matching version found for ms@2.9.9" <<'END'
modules ms@2.1.3 left-pad@1.3.0
rm -rf node_modules package-lock.json
#plant
npm pkg set devDependencies.ms=2.9.9
#run
npm install --no-audit
npm ls
END

pair npm-integrity "code EINTEGRITY" <<'END'
modules ms@2.1.3
rm -rf node_modules
#plant
sed -i 's/sha512-[A-Za-z0-9]\{8\}/sha512-AAAAAAAA/' package-lock.json
#run
npm ci --cache "$(mktemp -d)" --loglevel http
node -p 'require("ms")(1000)'
END

pair npm-no-script 'Missing script: "biuld"' <<'END'
npm init -y >/dev/null
npm pkg set scripts.lint='echo lint: 0 errors' scripts.build='node -e "console.log(process.pid, Date.now())"' scripts.ci='npm run lint && npm run build'
#plant
npm pkg set scripts.ci='npm run lint && npm run biuld'
#run
npm run ci
END

pair npm-peer "ERESOLVE unable to resolve dependency tree" <<'END'
for n in core plugin; do mkdir $n; echo "{\"name\":\"@acme/$n\",\"version\":\"1.4.0\"}" >$n/package.json; done
echo '{"name":"@acme/plugin","version":"1.4.0","peerDependencies":{"@acme/core":"^1.0.0"}}' >plugin/package.json
(cd core && npm pack --pack-destination ..); sed -i 's/1\.4\.0/2.0.0/' core/package.json; (cd core && npm pack --pack-destination ..)
(cd plugin && npm pack --pack-destination ..)
echo '{"name":"app","version":"1.0.0","dependencies":{"@acme/core":"file:acme-core-1.4.0.tgz","@acme/plugin":"file:acme-plugin-1.4.0.tgz"}}' >package.json
#plant
sed -i 's/core-1.4.0/core-2.0.0/' package.json
#run
npm install --loglevel info
END
