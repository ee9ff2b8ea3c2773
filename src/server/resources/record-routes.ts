import { sql, type ReferenceExpression, type SelectQueryBuilder, type SqlBool } from 'kysely';
import type { Static, TArray, TSchema } from 'typebox';
import { allRows } from '../api/pages.ts';
import type { Call, ParamNames, ParamsOf, WithCaller, WithOrganisation, WithProject } from '../api/call.ts';
import { complete, type Route, type Subject } from '../api/route.ts';
import type { Action, Facts } from '../auth/audit.ts';
import { admitToOwner, ownerFor } from '../auth/organisations.ts';
import type { MemberRole } from '../auth/roles.ts';
import type { Queries } from '../db/open.ts';
import type { Access, RouteScope } from '../http/route.ts';
import type { BoundedTable } from '../../shared/domain/bounds.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import { mapYielding } from '../../shared/lib/event-loop.ts';
import { described, identifier, type FieldSet, type ValuesOf } from '../../shared/records/fields.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound } from './common.ts';
import { checkName, type NameScope } from './names.ts';

type Reading<Context, Param extends string> = { db: Queries; params: ParamsOf<Param> } & Context;

export interface Rows<Row> {
  all(): Promise<Row[]>;
  one(id: bigint): Promise<Row | undefined>;
}

/** `id` is the column of the identifier. */
export function byQuery<DB, Tables extends keyof DB, Row extends { id: bigint }>(
  query: SelectQueryBuilder<DB, Tables, Row>,
  id: ReferenceExpression<DB, Tables> & string = 'id' as never,
): Rows<Row> {
  return {
    all: () => allRows(query, id),
    one: (named) => query.where(id, '=', named as never).executeTakeFirst(),
  };
}

export function byList<Row extends { id: bigint }>(all: () => Promise<Row[]>): Rows<Row> {
  return { all, one: async (named) => (await all()).find(({ id }) => id === named) };
}

/** The account whose records are listed or created: the organisation that is named, or the caller. */
export async function loadAccount(call: { db: Queries } & WithCaller): Promise<{ account: bigint }> {
  const asking = call as typeof call & Pick<Route, 'inOrganisation'> & Record<'input' | 'query', unknown>;
  const { organisation_id: asked } = { ...(asking.query as object), ...(asking.input as object) } as {
    organisation_id?: bigint;
  };
  return { account: await ownerFor(call.db, call.caller, asked, asking.inOrganisation ?? 'owner') };
}

/** All records if there is no account, because the owner of one record is checked when it is found. */
export const ownedBy = (account: bigint | undefined) =>
  account === undefined ? sql<SqlBool>`1 = 1` : sql<SqlBool>`owner_id = ${account}`;

/** A kind of records, such as the hooks of a project. */
interface Kind<
  Context,
  Path extends string,
  Name extends string,
  Fields extends FieldSet,
  Shown extends TSchema,
  Parent,
  Row,
> {
  /** Names one record in calls, in the path (with `_id`) and in the audit log. */
  name: Name;
  /** The name in the audit log, if it differs. */
  auditName?: string;
  /** The path of the list. */
  path: Path;
  access: Access;
  /** The roles that reading and writing ask for if an organisation owns the records. `rows` then get the `account`. */
  inOrganisation?: { reads: MemberRole; writes: MemberRole };
  /** For the list and for one record, if reading asks for less than writing. */
  reads?: Access;
  scope: RouteScope;
  fields: Fields;
  answer: Shown;
  /** Loads the parent of the records, such as a suite. The result is added to the call. */
  inside?: (call: Reading<Context, ParamNames<Path>>) => Promise<Parent>;
  rows: (call: Reading<Context, ParamNames<Path>> & Parent) => Rows<Row>;
  /** If false, the row is not listed, and calls that name it are refused. */
  maySee?(row: Row, call: Context): boolean;
  view: (
    row: Row,
    call: Pick<Call, 'database' | 'origin' | 'vault'> & { db: Queries } & Context,
  ) => Static<Shown> | Promise<Static<Shown>>;
  /** Checks the values for a new record, or for changes to `row`. */
  verify?: (
    call: Omit<Call<'POST', Path>, 'input'> & Context & Parent,
    values: Partial<ValuesOf<Fields>>,
    row?: Row,
  ) => Promise<FieldErrors>;
  /** The scope in which a name must be unique. */
  namesIn?: (call: Context & Parent) => NameScope;
  /** The subject in the audit log, if the rows have no name. */
  subject?(row: Row): Subject;
  details?(call: Parent): Facts;
}

interface Own<Calling, Answer> {
  access?: Access;
  showsSecrets?: boolean;
  handle(call: Calling): Promise<Answer>;
}

type Outside<Calling> = Omit<Calling, 'db'> & { db: Queries };

/** `ask` and `follow` as in api/route.ts. */
interface Writing<Calling, Answer, Asked = object> extends Own<Calling & Partial<NoInfer<Asked>>, Answer> {
  ask?(call: Outside<Calling>): Promise<Asked>;
  follow?(call: Outside<Calling>, made: Answer): Promise<Answer>;
  /** The action in the audit log. */
  action?: Action;
  details?: (call: Calling) => Facts;
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** The routes of one kind of records. Each route takes its summary and its differences from the usual route. */
export const recordRoutes =
  <Context>(credentials: Route['credentials']) =>
  <
    const Path extends string,
    const Name extends string,
    Fields extends FieldSet,
    Shown extends TSchema,
    Row extends { id: bigint },
    Parent extends object = object,
  >(
    kind: Kind<Context, Path, Name, Fields, Shown, Parent, Row>,
  ) => {
    type One = `${Path}/:${Name}_id`;
    type Loading = Reading<Context, ParamNames<Path> | `${Name}_id`>;
    type OnAll<M extends Method> = Call<M, Path, Fields> & Context & Parent;
    type OnOne<M extends Method> = Call<M, One, Fields> & Context & Parent & Record<Name, Row>;

    const { name, auditName = name, path, access, reads = access, scope, answer, inside, verify, namesIn } = kind;
    const one: One = `${path}/:${name}_id`;
    const maySee = (row: Row, call: unknown): boolean => kind.maySee?.(row, call as Context) ?? true;
    const rowIn = (call: unknown): Row | undefined => (call as Record<string, Row>)[name];
    const subject = (call: unknown): Subject => {
      const row = rowIn(call) as Row & Subject;
      return kind.subject?.(row) ?? row;
    };

    async function load(call: Loading): Promise<Parent & Record<Name, Row>> {
      const parent = await inside?.(call);
      const named = (call.params as Record<string, bigint>)[`${name}_id`] as bigint;
      const whose = kind.inOrganisation ? { account: undefined } : {};
      const row = orNotFound(await kind.rows({ ...call, ...parent, ...whose } as never).one(named));
      if (kind.inOrganisation) {
        const { owner_id: account } = row as Row & { owner_id: bigint };
        const { caller, db, inOrganisation: asked } = call as Loading & WithCaller & Pick<Route, 'inOrganisation'>;
        await admitToOwner(db, caller, account, asked ?? kind.inOrganisation.writes);
        return { ...parent, account, [name]: row } as never;
      }
      if (!maySee(row, call)) throw new ApiError('unauthorized');
      return { ...parent, [name]: row } as never;
    }

    const { reads: readsThere, writes: writesThere } = kind.inOrganisation ?? {};
    const onAll = { path, access, scope, inOrganisation: writesThere, ...(inside && { load: inside }) };
    const ofOne = { access, scope, inOrganisation: writesThere, load };
    const forOwner = { organisation_id: described(identifier(), 'Of this organisation; by default your own') };
    const onOne = { ...ofOne, path: one };
    const written = {
      body: kind.fields,
      ...(verify && { verify: (call: never, values: never) => verify(call, values, rowIn(call)) }),
      ...(namesIn && {
        verifyNames: (call: Context & Parent & { db: Queries }, sent: { name?: string }) =>
          checkName(call.db, namesIn(call), sent.name, rowIn(call)?.id),
      }),
    };
    const audited = (action: Action, details?: (call: never) => Facts) => ({
      action,
      details: (call: never): Facts => ({ ...kind.details?.(call), ...details?.(call) }),
    });

    return {
      one,
      /** Parts of further routes for one record. */
      ofOne,
      load,
      view: kind.view,
      answer,
      subject,
      rows: kind.rows,

      list<Item extends TSchema = Shown>(
        summary: string,
        own: Partial<Own<OnAll<'GET'>, Static<Item>[]>> & { answer?: Item } = {},
      ): Route<'GET', Path, TArray<Item>> {
        const item = (own.answer ?? answer) as Item;
        const handle = async (call: OnAll<'GET'>): Promise<unknown> => {
          const seen = (await kind.rows(call as never).all()).filter((row) => maySee(row, call));
          return Promise.all(await mapYielding(seen, async (row) => kind.view(row, call)));
        };
        return complete(
          {
            method: 'GET',
            ...onAll,
            access: reads,
            inOrganisation: readsThere,
            summary,
            handle,
            ...(kind.inOrganisation && { query: forOwner }),
            ...own,
            answer: listOf(item),
          },
          credentials,
        );
      },

      create<Made extends TSchema = Shown, Body extends FieldSet = Fields, Asked extends object = object>(
        summary: string,
        own: Writing<Call<'POST', Path, Body> & Context & Parent, Static<NoInfer<Made>>, Asked> & {
          creates: BoundedTable;
          answer?: Made;
          body?: Body;
        },
      ): Route<'POST', Path, Made> {
        const { action = `${auditName}.created`, details, ...rest } = own;
        const made = (own.answer ?? answer) as Made;
        const audit = audited(action, details);
        const body = kind.inOrganisation ? { body: { ...(rest.body ?? kind.fields), ...forOwner } } : {};
        const route = { method: 'POST', ...onAll, ...written, summary, ...rest, ...body, answer: made, audit } as const;
        return complete(route, credentials);
      },

      show(
        summary: string,
        own: Partial<Own<OnOne<'GET'>, Static<Shown>>> & {
          isForEverybody?(call: Loading): Promise<boolean>;
          load?(call: Loading): Promise<Parent & Record<Name, Row>>;
        } = {},
      ): Route<'GET', One, Shown> {
        const handle = async (call: OnOne<'GET'>): Promise<unknown> => kind.view(call[name], call);
        return complete(
          { method: 'GET', ...onOne, access: reads, inOrganisation: readsThere, summary, handle, ...own, answer },
          credentials,
        );
      },

      change<Changed extends TSchema = Shown, Asked extends object = object>(
        summary: string,
        own: Writing<OnOne<'PUT'>, Static<NoInfer<Changed>>, Asked> & {
          changes?: BoundedTable;
          answer?: Changed;
          body?: FieldSet & Partial<Fields>;
        },
      ): Route<'PUT', One, Changed> {
        const { action = `${auditName}.updated`, details, ...rest } = own;
        const changed = (own.answer ?? answer) as Changed;
        const audit = { ...audited(action, details), subject };
        return complete({ method: 'PUT', ...onOne, ...written, summary, ...rest, answer: changed, audit }, credentials);
      },

      remove(summary: string, own: Writing<OnOne<'DELETE'>, unknown>): Route<'DELETE', One, typeof destroyedAnswer> {
        const { action = `${auditName}.deleted`, details, ...rest } = own;
        const audit = { ...audited(action, details), subject };
        const handle = (call: OnOne<'DELETE'>) => own.handle(call).then(() => destroyed);
        return complete(
          { method: 'DELETE', ...onOne, summary, ...rest, handle, answer: destroyedAnswer, audit },
          credentials,
        );
      },
    };
  };

export const projectRecords = recordRoutes<WithProject>('project');
export const organisationRecords = recordRoutes<WithOrganisation>('organisation');
export const accountRecords = recordRoutes<WithCaller>('account');
