import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createMask } from '../../../src/shared/domain/masking.ts';
import type { TestReport } from '../../../src/shared/protocol/index.ts';
import { createReportDecoder } from '../../../src/shared/junit/decoding.ts';
import { millisecondsIn } from '../../../src/shared/junit/durations.ts';
import { createJunitReader } from '../../../src/shared/junit/reader.ts';
import { UnreadableReportError } from '../../../src/shared/junit/unreadable.ts';

interface Reading {
  tests: TestReport[];
  trouble: string | undefined;
}

/** Reads a report in pieces of some bytes, as it could come from a pipe. */
function read(bytes: Buffer | string, { secrets = [] as string[], piece = 7 } = {}): Reading {
  const report = Buffer.from(bytes);
  const tests: TestReport[] = [];
  const decoder = createReportDecoder();
  const reader = createJunitReader(createMask(secrets), (one) => tests.push(one));
  try {
    for (let at = 0; at < report.length; at += piece) reader.write(decoder.write(report.subarray(at, at + piece)));
    reader.write(decoder.end());
    reader.end();
    return { tests, trouble: undefined };
  } catch (error) {
    assert.ok(error instanceof UnreadableReportError, String(error));
    return { tests, trouble: error.message };
  }
}

const sample = (name: string): TestReport[] => {
  const { tests, trouble } = read(readFileSync(join(import.meta.dirname, 'samples', `${name}.xml`)));
  assert.equal(trouble, undefined);
  return tests;
};

const brief = ({ class: of, name, state, durationMs }: TestReport): unknown[] => [of, name, state, durationMs];

describe('reports of real tools', () => {
  test('pytest', () => {
    const tests = sample('pytest');
    assert.deepEqual(tests.map(brief), [
      ['tests.test_cart', 'test_total', 'passed', 1],
      ['tests.test_cart.TestDiscount', 'test_percent[10-90]', 'failed', 13],
      ['tests.test_orders', 'test_stored', 'failed', 0],
      ['tests.test_orders', 'test_sent', 'skipped', 0],
    ]);
    assert.match(tests[1]?.message ?? '', /^assert 91 == 90\n \+  where 91 = discounted\(100, 10\)\n\nself = /);
    assert.match(tests[2]?.message ?? '', /^failed on setup with "RuntimeError: no database"\n\n@pytest/);
    assert.equal(tests[3]?.message, 'needs a network');
    assert.deepEqual(new Set(tests.map(({ suite }) => suite)), new Set(['pytest']));
  });

  test('jest-junit, whose messages are texts', () => {
    const tests = sample('jest-junit');
    assert.deepEqual(tests.map(brief), [
      ['cart adds a thing', 'cart adds a thing', 'passed', 3],
      ['cart > discount', 'cart > discount takes 10 % off', 'failed', 21],
      ['cart is emptied', 'cart is emptied', 'skipped', 0],
    ]);
    assert.equal(tests[0]?.file, 'src/cart.test.js');
    assert.match(tests[1]?.message ?? '', /^Error: expect\(received\)[^]*Expected: 90\nReceived: 91\n/);
  });

  test('Surefire, which runs tests again and writes 1,234.5 seconds', () => {
    const tests = sample('surefire');
    assert.deepEqual(tests.map(brief), [
      ['org.example.CartTest', 'total', 'passed', 1_230_004],
      ['org.example.CartTest', 'discount', 'failed', 31],
      ['org.example.CartTest', 'stored', 'passed', 200],
      ['org.example.CartTest', 'sent', 'skipped', 0],
    ]);
    // The text begins with the message, after the class of the error.
    assert.match(tests[1]?.message ?? '', /^\S+: expected: <90> but was: <91>\n\s+at /);
    assert.equal(tests[1]?.failures, undefined);
    assert.equal(tests[2]?.failures, 2);
    assert.match(tests[2]?.message ?? '', /^java.net.SocketTimeoutException: timed out(\n\s+at |$)/);
  });

  test('gotestsum, whose attribute says nothing', () => {
    const tests = sample('gotestsum');
    assert.deepEqual(tests.map(brief), [
      ['example.org/shop/cart', 'TestTotal', 'passed', 0],
      ['example.org/shop/cart', 'TestDiscount/ten_percent', 'failed', 10],
      ['example.org/shop/cart', 'TestStored', 'failed', 1],
      ['example.org/shop/cart', 'TestStored', 'passed', 1],
      ['example.org/shop/cart', 'TestSent', 'skipped', 0],
    ]);
    assert.match(tests[1]?.message ?? '', /cart_test.go:21: got 91, want 90/);
    assert.match(tests[4]?.message ?? '', /needs a network/);
  });

  test('cargo-nextest', () => {
    const tests = sample('nextest');
    assert.deepEqual(tests.map(brief), [
      ['shop::cart', 'tests::total', 'passed', 4],
      ['shop::cart', 'tests::discount', 'failed', 5],
      ['shop::cart', 'tests::stored', 'passed', 6],
    ]);
    assert.match(tests[1]?.message ?? '', /^thread 'tests::discount' panicked at src\/cart.rs:31:9:?\n/);
    assert.equal(tests[2]?.failures, 1);
  });

  test('PHPUnit, whose suites are nested', () => {
    const tests = sample('phpunit');
    assert.deepEqual(tests.map(brief), [
      ['Shop.CartTest', 'testTotal', 'passed', 4],
      ['Shop\\CartTest', 'testDiscount with data set #0', 'failed', 10],
      ['Shop.CartTest', 'testStored', 'failed', 7],
      ['Shop.CartTest', 'testSent', 'skipped', 0],
    ]);
    assert.equal(tests[1]?.suite, 'Shop\\CartTest::testDiscount');
    assert.equal(tests[2]?.suite, 'Shop\\CartTest');
    assert.deepEqual([tests[2]?.file, tests[2]?.line], ['/build/tests/CartTest.php', 30]);
    assert.match(tests[1]?.message ?? '', /Failed asserting that 91 matches expected 90/);
  });

  test('Playwright, whose attribute says only where', () => {
    const tests = sample('playwright');
    assert.deepEqual(tests.map(brief), [
      ['cart.spec.ts', 'cart › adds a thing', 'passed', 512],
      ['cart.spec.ts', 'cart › takes a thing away', 'failed', 1402],
      ['cart.spec.ts', 'cart › is sent', 'skipped', 0],
    ]);
    assert.match(tests[1]?.message ?? '', /Received string: "1 thing"$/);
  });
});

const suiteOf = (tests: string, head = ''): string => `${head}<testsuite name="s">${tests}</testsuite>`;

describe('hostile and broken reports', () => {
  const count = (tests: TestReport[]): number => tests.length;

  test('entities that a document declares do nothing [promise: build-reports]', () => {
    const levels = Array.from({ length: 9 }, (_, at) => `<!ENTITY l${at + 1} "${`&l${at};`.repeat(10)}">`);
    const laughs = `<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY l0 "lol">${levels.join('')}]>`;
    const bomb = read(suiteOf('<testcase name="&l9;"/>', laughs));
    assert.match(bomb.trouble ?? '', /not well-formed XML/);
    assert.equal(count(bomb.tests), 0);
    for (const address of ['file:///etc/passwd', 'http://127.0.0.1:1/x']) {
      const external = `<!DOCTYPE a [<!ENTITY x SYSTEM "${address}"><!ENTITY % y SYSTEM "${address}"> %y;]>`;
      const { tests, trouble } = read(suiteOf('<testcase name="before"/><testcase name="&x;"/>', external));
      assert.deepEqual(
        tests.map(({ name }) => name),
        ['before'],
      );
      assert.match(trouble ?? '', /not well-formed XML/);
    }
  });

  test('says what is wrong, and keeps what came before', () => {
    const wrong: [report: string | Buffer, told: RegExp, tests: number][] = [
      ['', /^it is empty$/, 0],
      ['not XML at all', /not well-formed XML, at line 1/, 0],
      [Buffer.from([0, 1, 2, 3, 0xff, 0xfe, 0]), /not well-formed XML/, 0],
      ['<html><body>404</body></html>', /not a JUnit report: it starts with <html>/, 0],
      ['<testsuite><testcase name="a"/><testcase name="b"', /not well-formed XML/, 1],
      ['<testsuite><testcase name="a"/></testsuite><testcase name="b"/>', /more than one root/, 1],
      ['<testsuite><testcase name="a"></wrong></testsuite>', /not well-formed XML/, 0],
      ['<?xml version="1.0" encoding="klingon"?><testsuite/>', /its encoding, klingon, is not supported/, 0],
      ['<testsuite>'.repeat(101), /nested more than 100 deep/, 0],
      [`<testsuite ${Array.from({ length: 300 }, (_, at) => `a${at}="x"`).join(' ')}/>`, /too many attributes/, 0],
    ];
    for (const [report, told, tests] of wrong) {
      const reading = read(report);
      assert.match(reading.trouble ?? 'nothing', told);
      assert.equal(reading.tests.length, tests, String(report));
    }
  });

  test('passes over what tests have printed, in whatever pieces it comes', () => {
    const printed = 'a > b ] ]] &amp; [x]\n\n';
    const report = `<testsuite>
<testcase name="one"><system-out>${printed}</system-out><failure>first &lt;line>
<![CDATA[second ]] > <b>]]></failure></testcase>
<!-- > ] --><testcase name="two [x]"><system-err><![CDATA[${printed}<testcase name="none"/>]]]]></system-err></testcase>
</wrong>`;
    const place = `at line ${report.split('\n').length}, column 9`;
    for (let piece = 1; piece <= report.length; piece += 1) {
      const { tests, trouble } = read(report, { piece });
      const seen = tests.map(({ name, state, message }) => [name, state, message]);
      const expected = [
        ['one', 'failed', 'first <line>\nsecond ]] > <b>'],
        ['two [x]', 'passed', ''],
      ];
      assert.deepEqual(seen, expected, `in pieces of ${piece}`);
      assert.match(trouble ?? '', new RegExp(place), `in pieces of ${piece}`);
    }
  });

  test('keeps texts as text, within bounds', () => {
    const name = `<img src=x onerror=alert(1)> \u202Eesrever \u0000\u0001 ${'ä'.repeat(2000)}`;
    const escaped = name.replaceAll('<', '&lt;').replaceAll('>', '&gt;');
    const message = 'é'.repeat(100_000);
    const { tests } = read(suiteOf(`<testcase name="${escaped}"><failure>${message}</failure></testcase>`), {
      piece: 4096,
    });
    const [one] = tests;
    assert.ok(one);
    assert.match(one.name, /^<img src=x onerror=alert\(1\)> \u202Eesrever \uFFFD\uFFFD ä+$/);
    assert.ok(Buffer.byteLength(one.name) <= 1024 && one.name.isWellFormed() && !one.name.endsWith('\uFFFD'));
    assert.equal(one.message, 'é'.repeat(4096));
  });

  test('has the stack below the message, and each line once', () => {
    const messageOf = (attribute: string, text: string): string | undefined =>
      read(suiteOf(`<testcase name="a"><failure message="${attribute}">${text}</failure></testcase>`)).tests[0]
        ?.message;
    assert.equal(messageOf('90 is not 91', '\n  at cart.js:3\n'), '90 is not 91\n\nat cart.js:3');
    assert.equal(
      messageOf('90 is not 91', 'Error: 90 is not 91\n  at cart.js:3'),
      'Error: 90 is not 91\n  at cart.js:3',
    );
    assert.equal(messageOf('90 is not 91', ' '), '90 is not 91');
    assert.equal(messageOf('', 'at cart.js:3'), 'at cart.js:3');
    assert.equal(messageOf('é'.repeat(5000), 'x'.repeat(9000)), 'é'.repeat(4096));
    assert.equal(messageOf('short', 'x'.repeat(9000))?.length, 8192);
    const secret = 'correct-horse-battery-staple';
    const report = suiteOf(`<testcase name="a"><error message="${secret}">at ${secret}</error></testcase>`);
    assert.equal(read(report, { secrets: [secret] }).tests[0]?.message, 'at [masked]', 'the text has the message');
  });

  test('masks secrets before it cuts [promise: build-secrets]', () => {
    const secret = 'correct-horse-battery-staple';
    const at = (length: number): string =>
      suiteOf(
        `<testcase name="${secret}" classname="a ${secret}"><failure>${'x'.repeat(length)}${secret}</failure></testcase>`,
      );
    for (const length of [0, 8170, 8185, 8191]) {
      const { tests } = read(at(length), { secrets: [secret], piece: 11 });
      const [one] = tests;
      assert.equal(one?.name, '[masked]');
      assert.equal(one.class, 'a [masked]');
      assert.doesNotMatch(one.message, /corr|staple/);
      assert.equal(one.message, `${'x'.repeat(length)}[masked]`.slice(0, 8192));
    }
  });
});

describe('encodings', () => {
  const report = (encoding: string): string =>
    suiteOf('<testcase name="Grüße"/>', `<?xml version="1.0" encoding="${encoding}"?>`);
  const named = (bytes: Buffer): string | undefined => read(bytes, { piece: 3 }).tests[0]?.name;

  test('are those that the report has', () => {
    assert.equal(named(Buffer.from(report('UTF-8'))), 'Grüße');
    assert.equal(named(Buffer.from(`\uFEFF${report('UTF-8')}`)), 'Grüße');
    assert.equal(named(Buffer.from(report('ISO-8859-1'), 'latin1')), 'Grüße');
    const wide = Buffer.from(`\uFEFF${report('UTF-16')}`, 'utf16le');
    assert.equal(named(wide), 'Grüße');
    assert.equal(named(Buffer.from(wide).swap16()), 'Grüße');
    assert.equal(named(Buffer.from(report('UTF-16'))), 'Grüße'); // says so, and is not
    assert.equal(named(Buffer.from(report('UTF-8'), 'latin1')), 'Gr\uFFFD\uFFFDe');
  });
});

test('durations are read as many countries write them', () => {
  const times: [string | undefined, number][] = [
    ['0.001', 1],
    ['1,234.567', 1_234_567],
    ['1.234,567', 1_234_567],
    ['1 234,5', 1_234_500],
    ['0,5', 500],
    ['12,25', 12_250],
    ['1,234', 1_234_000],
    ['1,234,567', 1_234_567_000],
    ['1.5e-3', 2],
    ['2.', 2000],
    ['', 0],
    [undefined, 0],
    ['-1', 0],
    ['NaN', 0],
    ['Infinity', 0],
    ['9'.repeat(400), 1_000_000_000_000],
  ];
  assert.deepEqual(
    times.map(([text]) => millisecondsIn(text)),
    times.map(([, ms]) => ms),
  );
});
