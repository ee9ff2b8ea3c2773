import sax from 'sax';
import type { Mask } from '../domain/masking.ts';
import { cutBytes } from '../lib/cut-bytes.ts';
import { bytesOfTest } from '../domain/bounds.ts';
import type { TestReport } from '../protocol/index.ts';
import { millisecondsIn } from './durations.ts';
import { feed } from './feed.ts';
import { asMessage, asName, ReportText } from './texts.ts';
import { UnreadableReportError } from './unreadable.ts';

/**
 * Reads JUnit XML from pytest, jest-junit, Surefire, gotestsum, cargo-nextest, PHPUnit and Playwright as a stream. The
 * parser ignores entities that a document declares. So they cannot make a document grow, or refer to a file or an
 * address.
 */
export interface JunitReader {
  /** Throws `UnreadableReportError` at the first error. The tests before it were reported. */
  write(text: string): void;
  end(): void;
}

/** The limit on an attribute, comment or declaration. The parser builds them by character, which takes memory. */
const longestPart = 256 * 1024;
const mostAttributes = 200;
const deepest = 100;
/** The name of an error's class may come before its message. */
const longestClass = 100;

// The package's types lack this setting.
Object.assign(sax, { MAX_BUFFER_LENGTH: longestPart });

const roots = new Set(['testsuites', 'testsuite', 'testcase']);

type Fate = 'failed' | 'skipped' | 'retried';
const fates: Record<string, Fate> = {
  failure: 'failed',
  error: 'failed',
  skipped: 'skipped',
  flakyFailure: 'retried',
  flakyError: 'retried',
};

type Test = TestReport & { failures: number };

export function createJunitReader(mask: Mask, onTest: (test: TestReport) => void): JunitReader {
  const parser = sax.parser(true, { position: true });
  const path: string[] = [];
  const suites: { name: string; file: string }[] = [];
  let test: Test | undefined;
  let result: { fate: Fate; text: ReportText; message: string; depth: number } | undefined;
  let attributes = { count: 0, size: 0 };
  let hasRoot = false;

  const short = (text: string | undefined, field: keyof typeof bytesOfTest, clean = asName): string => {
    if (text === undefined || text === '') return '';
    const shown = new ReportText(mask, bytesOfTest[field]);
    shown.add(text);
    return shown.end(clean);
  };

  const note = (fate: Fate, message: string): void => {
    if (!test) return;
    if (fate === 'retried') test.failures += 1;
    const isFirst = fate === 'failed' ? test.state !== 'failed' : test.state === 'passed';
    if (isFirst) test.message = message;
    if (isFirst && fate !== 'retried') test.state = fate;
  };

  const open = ({ name: qualified, attributes: sent }: sax.Tag): void => {
    const name = localName(qualified);
    if (path.length === 0 && !roots.has(name))
      throw new UnreadableReportError(`it is not a JUnit report: it starts with <${asName(name).slice(0, 100)}>`);
    if (path.length === 0 && hasRoot) throw new UnreadableReportError('it has more than one root');
    hasRoot = true;
    path.push(name);
    if (path.length > deepest) throw new UnreadableReportError(`it is nested more than ${deepest} deep`);
    if (name === 'testsuite' && !test) {
      const outer = suites.at(-1);
      suites.push({
        name: short(sent.name, 'suite') || (outer?.name ?? ''),
        file: short(sent.file ?? sent.filepath, 'file') || (outer?.file ?? ''),
      });
    } else if (name === 'testcase' && !test) {
      const suite = suites.at(-1);
      test = {
        name: short(sent.name, 'name'),
        class: short(sent.classname ?? sent.class, 'class'),
        suite: suite?.name ?? '',
        file: short(sent.file, 'file') || (suite?.file ?? ''),
        state: 'passed',
        durationMs: millisecondsIn(sent.time),
        message: '',
        failures: 0,
        ...lineIn(sent.line),
      };
    } else if (test && path.at(-2) === 'testcase') {
      const fate = Object.hasOwn(fates, name) ? fates[name] : undefined;
      if (fate === undefined) return;
      const message = short(sent.message, 'message', asMessage);
      // The text of a skipped test only repeats its message.
      if (fate === 'skipped' && saysSomething(message)) note(fate, message);
      else result = { fate, text: new ReportText(mask, bytesOfTest.message), message, depth: path.length };
    }
  };

  const close = (): void => {
    const name = path.pop();
    if (result && path.length < result.depth) {
      note(result.fate, together(result.message, result.text.end(asMessage)));
      result = undefined;
    }
    if (name === 'testsuite' && !test) suites.pop();
    if (name === 'testcase' && test && path.at(-1) !== 'testcase') {
      const { failures, ...rest } = test;
      onTest(failures > 0 ? test : rest);
      test = undefined;
    }
  };

  /** Whether the parser needs the current text. It needs text outside the root, to report it as an error. */
  const isTextWanted = (): boolean => {
    if (path.length === 0) return true;
    const isItsOwn = path.length === result?.depth || path.at(-1) === 'stackTrace';
    return result !== undefined && isItsOwn && !result.text.isFull;
  };
  const append = (text: string): void => {
    if (isTextWanted()) result?.text.add(text);
  };

  Object.assign(parser, {
    onopentagstart: () => (attributes = { count: 0, size: 0 }),
    onattribute({ name, value }: { name: string; value: string }) {
      attributes = { count: attributes.count + 1, size: attributes.size + name.length + value.length };
      if (attributes.count > mostAttributes || attributes.size > 2 * longestPart)
        throw new UnreadableReportError('one of its elements has too many attributes');
    },
    onopentag: open,
    onclosetag: close,
    ontext: append,
    oncdata: append,
    onerror(error: Error) {
      throw new UnreadableReportError(explainXmlError(error.message));
    },
  } satisfies Partial<sax.SAXParser>);

  return {
    write: (text) => feed(parser, text, isTextWanted),
    end() {
      parser.close();
      if (!hasRoot) throw new UnreadableReportError('it is empty');
    },
  };
}

/** Some tools write 0 or -1 if they do not know it. */
function lineIn(sent: string | undefined): { line?: number } {
  return sent !== undefined && /^[1-9]\d{0,8}$/.test(sent) ? { line: Number(sent) } : {};
}

function localName(qualified: string): string {
  return qualified.slice(qualified.lastIndexOf(':') + 1);
}

/** Two tools put only `Failed` or the location into the attribute. Then the text has the reason. */
function saysSomething(message: string): boolean {
  return message !== '' && message !== 'Failed' && !/^\S+:\d+:\d+ /.test(message);
}

/** The message, then the text below it, which is usually the stack. Many tools begin the text with the message. */
function together(message: string, text: string): string {
  if (text === '') return message;
  if (!saysSomething(message) || text.slice(0, message.length + longestClass).includes(message)) return text;
  return cutBytes(Buffer.from(`${message}\n\n${text}`), bytesOfTest.message);
}

/** The parser prints line and column (from 0) on separate lines of its message. */
function explainXmlError(message: string): string {
  const [what = '', line = '', column = ''] = message.split('\n');
  if (what.startsWith('Max buffer length')) return 'one of its attributes, comments or declarations is too long';
  const place = [line, column].map((text) => Number(text.replace(/\D+/g, '')) + 1);
  return `it is not well-formed XML, at line ${place[0]}, column ${place[1]}: ${asName(what)}`;
}
