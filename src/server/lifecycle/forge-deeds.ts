import type { StatusReport } from './status-reports.ts';

/**
 * What the server does at pull requests of a connected forge. Deeds are deliveries of the forge's status target, so
 * they have its order, its retries and its records.
 */
export type Deed = CommandDeed | AnswerDeed | NotesDeed;

/** As a hook names it. The ID survives a rename, and another account may take the old login. */
export interface ForgeAccount {
  id: string;
  login: string;
}

const commands = ['retest', 'approve', 'cancel', 'deploy'] as const;

export interface CommentCommand {
  kind: (typeof commands)[number];
  /** The whole line. */
  line: string;
  /** Of a suite or a deploy strategy. */
  name: string;
  sha: string;
}

interface OnComment {
  pull: string;
  comment: string;
  command: CommentCommand;
}

/** Asks the forge whether the author may give the command, and then obeys. */
export interface CommandDeed extends OnComment {
  kind: 'command';
  author: ForgeAccount;
}

/** A reaction, or one comment that says why nothing was done. */
export interface AnswerDeed extends OnComment {
  kind: 'answer';
  /** Blank if the command was obeyed. */
  why: string;
}

/** Writes what the builds of a pull request found at lines of files, as it is when the delivery is sent. */
export interface NotesDeed {
  kind: 'notes';
  pull: string;
}

/** Stored like a status, and shown as one. */
export type DeedReport = StatusReport & { deed: Deed };

export interface ToldDeed {
  type: string;
  /** The pull request, for notes. */
  subjectId?: bigint;
  report: DeedReport;
}

const told = (type: string, deed: Deed, shown: { context: string; description: string }): ToldDeed => ({
  type,
  report: { ref: '', build_state: '', path: '', ...shown, deed },
});

export function commandDeed(asked: Omit<CommandDeed, 'kind'>): ToldDeed {
  const { pull, author, command } = asked;
  const description = `${author.login} at pull request ${pull}`;
  return told('comment.command', { kind: 'command', ...asked }, { context: command.line, description });
}

export function answerDeed({ pull, comment, command }: OnComment, why: string): ToldDeed {
  const context = `answer to ${command.line}`;
  return told('comment.answer', { kind: 'answer', pull, comment, command, why }, { context, description: why });
}

export function notesDeed(pull: bigint): ToldDeed {
  const deed = { kind: 'notes', pull: String(pull) } as const;
  return {
    ...told('pull_request.notes', deed, { context: `notes at pull request ${pull}`, description: '' }),
    subjectId: pull,
  };
}

const longestLine = 300;

/** Undefined if the first line of a comment is no command. */
export function parseCommand(line: string): CommentCommand | undefined {
  if (line.length > longestLine || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u.test(line)) return undefined;
  const [, kind, rest = ''] = /^\/(retest|approve|cancel|deploy)(?: +(\S.*))?$/.exec(line) ?? [];
  const command = { line, name: '', sha: '' };
  if (kind === 'retest') return { ...command, kind, name: rest };
  if (kind === 'approve') return { ...command, kind, sha: rest.toLowerCase() };
  if (kind === 'cancel' && rest === '') return { ...command, kind };
  if (kind !== 'deploy' || rest === '') return undefined;
  const [, name = rest, sha = ''] = /^(.*\S) +([0-9a-f]{40})$/i.exec(rest) ?? [];
  return { ...command, kind, name, sha: sha.toLowerCase() };
}
