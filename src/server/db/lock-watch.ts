import {
  AliasNode,
  OperationNodeTransformer,
  TableNode,
  type DeleteQueryNode,
  type InsertQueryNode,
  type KyselyPlugin,
  type OperationNode,
  type PluginTransformQueryArgs,
  type PluginTransformResultArgs,
  type QueryResult,
  type RootOperationNode,
  type SelectQueryNode,
  type UnknownRow,
  type UpdateQueryNode,
  type ValueNode,
} from 'kysely';
import { appendFileSync } from 'node:fs';
import { lockOrder, type Right } from './lock-order.ts';

/** Only the program's own tests set it, because the watch costs time. */
export const lockReport = (): string | undefined => process.env['TEST_LOCK_ORDER'];

interface Taken {
  lock: string;
  waits: boolean;
}

/**
 * Fails a transaction that takes a lock out of order, also on SQLite, which has no such locks. Otherwise a wrong order
 * shows only if two transactions meet at the wrong moment. A table is not checked again if the transaction already
 * holds or added rows of it.
 */
export class LockWatch extends OperationNodeTransformer implements KyselyPlugin {
  readonly #isPostgres: boolean;
  readonly #report: string;
  readonly #held = new Set<string>();
  /** Tables to which this transaction added rows. Other transactions cannot wait for these rows or lock them. */
  readonly #own = new Set<string>();
  readonly #queries = new WeakMap<PluginTransformQueryArgs['queryId'], Taken[]>();
  #found: Taken[] = [];
  #isDelivery = false;

  constructor(isPostgres: boolean, report: string) {
    super();
    this.#isPostgres = isPostgres;
    this.#report = report;
  }

  takeRight(right: Right): void {
    this.#take(`right ${right}`);
    this.#held.add(`right ${right}`);
  }

  transformQuery({ node, queryId }: PluginTransformQueryArgs): RootOperationNode {
    this.#found = [];
    this.#isDelivery = false;
    const query = this.transformNode(node);
    // Delivery jobs are queue rows that are locked later than the rest (queue/delivery-jobs.ts).
    const taken = this.#found.map(({ lock, waits }) => ({
      lock: lock === 'jobs' && this.#isDelivery ? 'delivery jobs' : lock,
      waits,
    }));
    for (const { lock, waits } of taken) if (waits) this.#take(lock);
    this.#queries.set(queryId, taken);
    return query;
  }

  async transformResult({ queryId, result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    const isAny = result.rows.length > 0 || (result.numAffectedRows ?? 0n) > 0n;
    for (const { lock } of isAny ? (this.#queries.get(queryId) ?? []) : [])
      if (!this.#own.has(lock)) this.#held.add(lock);
    return result;
  }

  #take(lock: string): void {
    const place = placeOf(lock);
    if (place < 0 || this.#held.has(lock) || this.#own.has(lock)) return;
    const later = [...this.#held].find((held) => placeOf(held) > place);
    if (later !== undefined)
      throw this.#reported(`${lock} is locked after ${later}, against the order of src/server/db/lock-order.ts`);
  }

  /** Written to a file because work that is retried after any error would hide this one. */
  #reported(message: string): Error {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 100; // the first lines are all Kysely's
    const error = new Error(message);
    Error.stackTraceLimit = stackTraceLimit;
    appendFileSync(this.#report, `${error.stack}\n`);
    return error;
  }

  protected override transformSelectQuery(node: SelectQueryNode): SelectQueryNode {
    const modifiers = node.endModifiers ?? [];
    const waits = !modifiers.some(({ modifier }) => modifier === 'SkipLocked');
    for (const { of: tables = [] } of modifiers)
      for (const table of tables) this.#found.push({ lock: nameOf(table, node), waits });
    const query = super.transformSelectQuery(node);
    if (this.#isPostgres) return query;
    const { endModifiers: _, ...plain } = query;
    return plain;
  }

  protected override transformUpdateQuery(node: UpdateQueryNode): UpdateQueryNode {
    if (node.table) this.#found.push({ lock: nameOf(node.table), waits: true });
    return super.transformUpdateQuery(node);
  }

  protected override transformDeleteQuery(node: DeleteQueryNode): DeleteQueryNode {
    for (const table of node.from.froms) this.#found.push({ lock: nameOf(table), waits: true });
    return super.transformDeleteQuery(node);
  }

  /** An insert locks a row only if it may change an existing one. */
  protected override transformInsertQuery(node: InsertQueryNode): InsertQueryNode {
    const table = node.into ? nameOf(node.into) : '';
    if (node.onConflict?.updates) this.#found.push({ lock: table, waits: true });
    else this.#own.add(table);
    if (node.onConflict?.indexWhere) this.#isDelivery = true;
    return super.transformInsertQuery(node);
  }

  protected override transformValue(node: ValueNode): ValueNode {
    if (node.value === 'deliver') this.#isDelivery = true;
    return super.transformValue(node);
  }
}

const places: ReadonlyMap<string, number> = new Map(lockOrder.map((lock, at) => [lock, at]));
const placeOf = (lock: string): number => places.get(lock) ?? -1;

/** A locking clause may name a table by its alias in the query. */
function nameOf(node: OperationNode, within?: SelectQueryNode): string {
  if (AliasNode.is(node)) return nameOf(node.node);
  if (!TableNode.is(node)) return '';
  const { name } = node.table.identifier;
  for (const from of within?.from?.froms ?? [])
    if (AliasNode.is(from) && 'name' in from.alias && from.alias.name === name) return nameOf(from.node);
  return name;
}
