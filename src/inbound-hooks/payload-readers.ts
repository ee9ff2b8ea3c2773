import { tidy, type Facts, type RepositoryNames } from './facts.ts';
import { at, listOf, textOf, type Json } from './json.ts';
import { longest, most } from '../shared/bounds.ts';

/** Reads a payload. Throws a PayloadError where it makes no sense. */
export type Reader = (event: string, payload: Json) => Facts;

const nothing: Facts = {
  event: '',
  action: '',
  sender: '',
  repository: { names: [], addresses: [] },
  changes: [],
  left: 0,
  idle: '',
};

/**
 * Fills in missing facts with empty values, and shortens texts to a length that can be stored. Refs and SHAs were
 * checked already.
 */
export function tell(told: Partial<Facts>): Facts {
  const facts = { ...nothing, ...told };
  return {
    ...facts,
    event: tidy(facts.event, longest.hookEvent),
    action: tidy(facts.action, longest.hookEvent),
    sender: tidy(facts.sender, longest.hookSender),
  };
}

/** Reads the names and addresses from the fields of all forges. */
export function repositoryNames(...places: Json[]): RepositoryNames {
  const slugs = places.map(slugOf);
  const named = places.flatMap((place) => [at(place, 'full_name'), at(place, 'path_with_namespace')]);
  const addressed = places.flatMap((place) => [
    ...['ssh_url', 'clone_url', 'html_url', 'git_ssh_url', 'git_http_url', 'web_url'].map((name) => at(place, name)),
    at(place, 'links', 'html', 'href'),
    ...listOf(at(place, 'links', 'clone')).map((link) => at(link, 'href')),
  ]);
  return { names: texts([...named, ...slugs]), addresses: texts(addressed) };
}

/** Data Center has the key of the project and a name within the project. */
function slugOf(place: Json): string {
  const key = textOf(at(place, 'project', 'key'));
  return key === '' ? '' : `${key}/${textOf(at(place, 'slug'))}`;
}

/**
 * Whether a pull request stays within one repository. Compares identifiers, or names where the payload has no
 * identifiers. A repository that is missing, because it was deleted, is not the project's own.
 */
export function areSame(one: Json, other: Json): boolean {
  const [first, second] = [one, other].map((place) => at(place, 'uuid') ?? at(place, 'id'));
  if (isIdentifier(first) && isIdentifier(second)) return first === second;
  const [name = '', same] = [one, other].map((place) => repositoryNames(place).names[0]?.toLowerCase());
  return name !== '' && name === same;
}

function isIdentifier(value: Json): boolean {
  return typeof value === 'number' || (typeof value === 'string' && value !== '');
}

function texts(values: Json[]): string[] {
  const found = values.map(textOf).filter((text) => text !== '' && text.length <= longest.hookAddress);
  return [...new Set(found.map((text) => tidy(text, longest.hookAddress)))].slice(0, most.hookNames);
}
