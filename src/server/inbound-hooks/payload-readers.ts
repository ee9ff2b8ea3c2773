import { parseCommand } from '../lifecycle/forge-deeds.ts';
import { numberIn, PayloadError, tidy, type Facts, type RepositoryNames } from './facts.ts';
import { at, listOf, textOf, type Json } from './json.ts';
import { longest, most } from '../../shared/domain/bounds.ts';

/** Throws a PayloadError if the payload makes no sense. */
export type Reader = (event: string, payload: Json) => Facts;

const nothing: Facts = {
  event: '',
  action: '',
  sender: '',
  repository: { names: [], addresses: [] },
  changes: [],
  unread: 0,
  idle: '',
};

/** Fills in blanks, and shortens texts for the store. Refs and SHAs were checked before. */
export function completeFacts(found: Partial<Facts>): Facts {
  const facts = { ...nothing, ...found };
  return {
    ...facts,
    event: tidy(facts.event, longest.hookEvent),
    action: tidy(facts.action, longest.hookEvent),
    sender: tidy(facts.sender, longest.hookSender),
  };
}

export function repositoryNames(...repositories: Json[]): RepositoryNames {
  const slugs = repositories.map(slugOf);
  const named = repositories.flatMap((repository) => [
    at(repository, 'full_name'),
    at(repository, 'path_with_namespace'),
  ]);
  const addressed = repositories.flatMap((repository) => [
    ...['ssh_url', 'clone_url', 'html_url', 'git_ssh_url', 'git_http_url', 'web_url'].map((name) =>
      at(repository, name),
    ),
    at(repository, 'links', 'html', 'href'),
    ...listOf(at(repository, 'links', 'clone')).map((link) => at(link, 'href')),
  ]);
  return { names: texts([...named, ...slugs]), addresses: texts(addressed) };
}

/** Data Center has the project's key and a name within the project. */
function slugOf(repository: Json): string {
  const key = textOf(at(repository, 'project', 'key'));
  return key === '' ? '' : `${key}/${textOf(at(repository, 'slug'))}`;
}

/** Compares identifiers, or else names. A deleted repository is missing, and does not count as the project's own. */
export function areSame(one: Json, other: Json): boolean {
  const [first, second] = [one, other].map((repository) => at(repository, 'uuid') ?? at(repository, 'id'));
  if (isIdentifier(first) && isIdentifier(second)) return first === second;
  const [name = '', same] = [one, other].map((repository) => repositoryNames(repository).names[0]?.toLowerCase());
  return name !== '' && name === same;
}

function isIdentifier(value: Json): boolean {
  return typeof value === 'number' || (typeof value === 'string' && value !== '');
}

function texts(values: Json[]): string[] {
  const found = values.map(textOf).filter((text) => text !== '' && text.length <= longest.hookAddress);
  return [...new Set(found.map((text) => tidy(text, longest.hookAddress)))].slice(0, most.hookNames);
}

/** The event of a new comment. Only its first line counts. */
export function commentFacts(
  facts: Partial<Facts>,
  told: { id: Json; pullRequest: Json; text: Json; author: { id: Json; login: Json } },
): Facts {
  const [line = ''] = textOf(told.text).split(/[\r\n]/, 1);
  const command = parseCommand(line.trimEnd());
  if (!command) return completeFacts({ ...facts, idle: 'The comment is no command.' });
  const author = { id: identifier(told.author.id), login: tidy(textOf(told.author.login), longest.hookSender) };
  const id = identifier(told.id);
  if (id === '' || author.id === '' || author.login === '')
    throw new PayloadError('comment', 'is_blank', 'The payload names no comment or no author.');
  const comment = { id, pullRequest: numberIn(told.pullRequest, 'pull_request[number]'), author, command };
  return completeFacts({ ...facts, comment });
}

/** They become parts of addresses and of texts for the store. */
function identifier(value: Json): string {
  const text = typeof value === 'number' ? String(value) : textOf(value);
  return /^[\w{}:.-]{1,100}$/.test(text) ? text : '';
}
