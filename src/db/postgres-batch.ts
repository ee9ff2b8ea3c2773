import { Query as PgQuery } from 'pg';
import { carriedBy } from '../lib/carried.ts';
import { MessageWriter } from './postgres-messages.ts';

/** A statement, and the name under which a connection keeps it if it is used again. */
export interface Statement {
  text: string;
  values: readonly unknown[];
  name: string | undefined;
}

/** The result of a statement: PostgreSQL's command word, and the number of rows. */
export interface Answer {
  command: string;
  count: number;
  rows: Record<string, unknown>[];
}

/** One of the statements failed, and with it all later ones. */
export interface Failure {
  /** The index of the failed statement; the number of statements means the commit. */
  at: number;
  error: Error;
}

interface Column {
  name: string;
  read: (text: string) => unknown;
}

/** The part of pg's connection that is used here. */
interface Connection {
  readonly stream: { readonly writable: boolean; write(bytes: Buffer): void; cork(): void; uncork(): void };
  /** Prepared statements by name: those that PostgreSQL confirmed, and those that were sent and not confirmed yet. */
  readonly parsedStatements: Record<string, string>;
  readonly submittedNamedStatements: Record<string, string>;
}

/** The interface that pg's client expects of a query; it passes each query its answers. */
const Query = PgQuery as unknown as new (text: string) => { name: string | undefined; text: string };

interface Client {
  query(batch: object): unknown;
  getTypeParser(type: number, format: 'text'): unknown;
}

const writer = new MessageWriter();
/** The columns of prepared statements, by name, so that PostgreSQL need not describe them each time. */
const columnsOn = carriedBy<Connection, Map<string, Column[]>>(() => new Map());

/**
 * Sends several statements together; they are answered together. PostgreSQL runs them in order. When one fails, it
 * skips the rest. Outside a transaction they form one transaction: all of it is committed when it is answered, or none
 * of it.
 */
export function ask(client: Client, statements: readonly Statement[]): Promise<Answer[] | Failure> {
  const { promise, resolve } = Promise.withResolvers<Answer[] | Failure>();
  client.query(new Batch(client, statements, resolve));
  return promise;
}

class Batch extends Query {
  readonly #client: Client;
  readonly #statements: readonly Statement[];
  readonly #done: (outcome: Answer[] | Failure) => void;
  readonly #answers: Answer[] = [];
  /** The indexes of the statements that are parsed with this batch. */
  readonly #parsed = new Set<number>();
  #connection: Connection | undefined;
  #columns: Column[] | undefined;
  #rows: Answer['rows'] = [];
  #unreadable: Error | undefined;

  constructor(client: Client, statements: readonly Statement[], done: (outcome: Answer[] | Failure) => void) {
    super(''); // as text: of an object, pg would make a copy, which costs more than all the rest of this
    this.#client = client;
    this.#statements = statements;
    this.#done = done;
  }

  submit(connection: Connection): Error | null {
    this.#connection = connection;
    try {
      for (const [at, statement] of this.#statements.entries()) this.#write(connection, at, statement);
    } catch (error) {
      writer.forget();
      this.#giveUpParsing();
      return error as Error;
    }
    writer.sync();
    this.#expect(0);
    send(connection.stream, writer.take());
    return null;
  }

  /**
   * A name that another batch has just sent may never be parsed, when an earlier statement of that batch fails. So a
   * name that is not confirmed is not used, and the statement is sent without a name.
   */
  #write(connection: Connection, at: number, { name, text, values }: Statement): void {
    const isParsed = name !== undefined && connection.parsedStatements[name] === text;
    const isUnderWay = name !== undefined && connection.submittedNamedStatements[name] !== undefined;
    const used = name === undefined || (isUnderWay && !isParsed) ? '' : name;
    if (!isParsed) {
      writer.parse(used, text);
      if (used !== '') {
        connection.submittedNamedStatements[used] = text;
        this.#parsed.add(at);
      }
    }
    writer.bind(used, values);
    if (!isParsed || !this.#knownColumns(used)) writer.describe();
    writer.execute();
  }

  #knownColumns(name: string): Column[] | undefined {
    return this.#connection && columnsOn(this.#connection).get(name);
  }

  /** The client notes by `name` and `text` that a statement was parsed. */
  #expect(at: number): void {
    const statement = this.#statements[at];
    this.name = this.#parsed.has(at) ? statement?.name : undefined;
    this.text = statement?.text ?? '';
    this.#columns = statement?.name === undefined ? undefined : this.#knownColumns(statement.name);
    this.#rows = [];
  }

  handleRowDescription({ fields }: { fields: { name: string; dataTypeID: number }[] }): void {
    this.#columns = fields.map(({ name, dataTypeID }) => ({
      name,
      read: this.#client.getTypeParser(dataTypeID, 'text') as Column['read'],
    }));
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    const row: Record<string, unknown> = {};
    const columns = this.#columns ?? [];
    try {
      for (const [at, { name, read }] of columns.entries()) {
        const text = fields[at];
        row[name] = text === null || text === undefined ? null : read(text);
      }
    } catch (error) {
      this.#unreadable ??= error as Error;
    }
    this.#rows.push(row);
  }

  handleCommandComplete({ text }: { text: string }): void {
    const at = this.#answers.length;
    const words = text.split(' ');
    this.#answers.push({ command: words[0] ?? '', count: Number(words.at(-1)) || 0, rows: this.#rows });
    const { name } = this.#statements[at] ?? {};
    if (name !== undefined && this.#connection?.parsedStatements[name] !== undefined)
      columnsOn(this.#connection).set(name, this.#columns ?? []);
    this.#expect(at + 1);
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' });
  }

  handleError(error: Error): void {
    this.#giveUpParsing();
    this.#done({ at: this.#answers.length, error });
  }

  handleReadyForQuery(): void {
    if (this.#unreadable) this.#done({ at: this.#answers.length, error: this.#unreadable });
    else this.#done(this.#answers);
  }

  /** Statements after a failure were skipped, so their names were not parsed. */
  #giveUpParsing(): void {
    for (const at of this.#parsed) {
      const { name } = this.#statements[at] ?? {};
      if (name !== undefined) delete this.#connection?.submittedNamedStatements[name];
    }
  }
}

const corking = carriedBy<Connection['stream'], { isCorked: boolean }>(() => ({ isCorked: false }));

/** Everything that is sent on a connection within one turn goes out at once. */
function send(stream: Connection['stream'], bytes: Buffer): void {
  if (!stream.writable) return; // the connection itself reports that it broke
  const state = corking(stream);
  if (!state.isCorked) {
    state.isCorked = true;
    stream.cork();
    process.nextTick(() => {
      state.isCorked = false;
      stream.uncork();
    });
  }
  stream.write(bytes);
}
