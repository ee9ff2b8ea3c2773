import assert from 'node:assert/strict';
import type { Answer, Fields } from './client.ts';

/** The answer is exactly this error. */
export function assertRefused(answer: Answer, status: number, fields: Record<string, string[]>): void {
  assert.deepEqual({ status: answer.status, body: answer.body }, { status, body: { error: fields } });
}

/** All these fields are wrong, each with its code. */
export function assertWrongFields(answer: Answer, fields: Record<string, string>): void {
  assertRefused(answer, 403, Object.fromEntries(Object.entries(fields).map(([name, code]) => [name, [code]])));
}

export function assertNotFound(answer: Answer): void {
  assertRefused(answer, 404, { generic: ['not_found'] });
}

export function assertDestroyed(answer: Answer): void {
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(answer.response, { destroyed: true });
}

export function assertCreated(answer: Answer, fields: string): void {
  assert.equal(answer.status, 201, answer.text);
  assertFields(answer.record, fields);
}

/** The record has exactly these fields, separated by blanks, in this order. Every ID stands beside its exact text. */
export function assertFields(record: Fields, names: string): void {
  assert.deepEqual(Object.keys(record), names.split(' '));
  for (const [name, value] of Object.entries(record)) {
    const idString = record[`${name}_str`] ?? (name === 'id' ? record.id_ref : undefined);
    if (typeof value === 'bigint') assert.equal(idString, String(value), `the text of ${name}`);
  }
}

/** Whole seconds and an offset, and the time is about now. */
export function assertRecent(timestamp: unknown): void {
  assert.match(String(timestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);
  const age = Date.now() - Date.parse(String(timestamp));
  assert.ok(age > -1000 && age < 600_000, `${String(timestamp)} is not now`);
}
