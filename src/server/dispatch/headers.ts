import { ApiError } from '../../shared/errors.ts';
import { readTags, tagsIn } from '../../shared/domain/tags.ts';
import { claim, matching } from '../../shared/protocol/index.ts';
import { reader } from './read-message.ts';

type Headers = Record<string, unknown>;

const readClaim = reader(claim);
const readSmallNumber = reader(matching(/^\d{1,4}$/));
const readDigits = reader(matching(/^\d{1,15}$/));

export function readClaimHeader({ 'headrace-claim': sent }: Headers): string {
  return readClaim(sent, 'headrace-claim');
}

export function readTagsHeader({ 'headrace-tags': sent = '' }: Headers): string {
  const tags = typeof sent === 'string' ? readTags(tagsIn(sent)) : undefined;
  if (tags === undefined) throw new ApiError('invalid_format', 'headrace-tags');
  return tags;
}

export function readSlotsHeader({ 'headrace-slots': sent = '0' }: Headers): number {
  return Number(readSmallNumber(sent, 'headrace-slots'));
}

export function readOffset(value: unknown): number {
  return Number(readDigits(value, 'offset'));
}

export function readDigest(value: unknown): string | undefined {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value) ? value : undefined;
}
