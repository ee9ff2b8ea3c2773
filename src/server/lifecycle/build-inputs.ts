import type { BuildInput, InputKind } from '../../shared/domain/build-inputs.ts';
import { inputKinds } from '../../shared/domain/build-inputs.ts';
import { sha256 } from '../../shared/lib/sha256.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { BuildInputsRow } from '../db/schema.ts';

type Digests = Pick<BuildInputsRow, 'ordered_key' | 'reported_key' | 'vouches_for'>;
const noDigests: Digests = { ordered_key: '', reported_key: '', vouches_for: '' };

/** A build may be ordered again, with what its suite has by then. */
export async function noteOrderedInputs(
  trx: Transaction,
  id: bigint,
  inputs: readonly BuildInput[],
  digests: Partial<Digests> = {},
): Promise<void> {
  const noted = { ...noDigests, ...digests, ordered: JSON.stringify(inputs) };
  await trx
    .insertInto('build_inputs')
    .values({ id, reported: '[]', ...noted })
    .onConflict((known) => known.column('id').doUpdateSet(noted))
    .execute();
}

/** In one order, with the digests that are stored. */
export function reportedInputs(vault: Vault, projectId: bigint, told: readonly BuildInput[]): BuildInput[] {
  return told.map((one) => ({ ...one, digest: digestOfInput(vault, projectId, one) })).toSorted(inOrder);
}

export async function noteReportedInputs(
  trx: Transaction,
  id: bigint,
  inputs: readonly BuildInput[],
  digests: Pick<Digests, 'reported_key'>,
): Promise<void> {
  await trx
    .updateTable('build_inputs')
    .set({ reported: JSON.stringify(inputs), ...digests })
    .where('id', '=', id)
    .execute();
}

/** The digests of contents that users know anyway, such as an image's, stay what they are. */
const open: ReadonlySet<InputKind> = new Set(['image', 'dependency']);

/**
 * Covers project, name and content. Without the master key, nobody can compare it with a content of their choice, and
 * the same content has another digest under another name.
 */
export function digestOfInput(vault: Vault, projectId: bigint, { kind, name, digest }: BuildInput): string {
  return open.has(kind) ? digest : vault.keyedHash(JSON.stringify([String(projectId), kind, name, digest]));
}

/** In the order of kinds and names. Undefined if the build never began, or began before inputs were recorded. */
export async function inputsOfBuild(db: Queries, id: bigint): Promise<BuildInput[] | undefined> {
  const row = await db.selectFrom('build_inputs').selectAll().where('id', '=', id).executeTakeFirst();
  if (!row) return undefined;
  const all = [row.reported, row.ordered].flatMap((list) => JSON.parse(list) as BuildInput[]);
  const byName = new Map(all.map((one) => [keyOf(one), one])); // what the server knows counts
  return [...byName.values()].toSorted(inOrder);
}

export function digestOfInputs(inputs: readonly BuildInput[]): string {
  return sha256(JSON.stringify(inputs.map(({ kind, name, digest }) => [kind, name, digest])));
}

export interface InputDifference {
  kind: InputKind;
  name: string;
  before: string | null;
  after: string | null;
}

export function differencesOf(before: readonly BuildInput[], after: readonly BuildInput[]): InputDifference[] {
  const [old, now] = [before, after].map((list) => new Map(list.map((one) => [keyOf(one), one.digest])));
  const all = new Map([...before, ...after].map((one) => [keyOf(one), one]));
  return [...all.values()].toSorted(inOrder).flatMap((one) => {
    const [from = null, to = null] = [old?.get(keyOf(one)), now?.get(keyOf(one))];
    return from === to ? [] : [{ kind: one.kind, name: one.name, before: from, after: to }];
  });
}

const keyOf = ({ kind, name }: Pick<BuildInput, 'kind' | 'name'>): string => `${kind} ${name}`;

function inOrder(a: BuildInput, b: BuildInput): number {
  const kinds = inputKinds.indexOf(a.kind) - inputKinds.indexOf(b.kind);
  return kinds !== 0 ? kinds : Number(a.name > b.name) - Number(a.name < b.name);
}
