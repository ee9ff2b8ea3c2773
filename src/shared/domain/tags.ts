import { longest, most } from './bounds.ts';

/** A runner needs all tags of a suite. As one text, sorted with commas, so that equal tags are equal texts. */

/** Nothing that has a meaning in a shell, a list or a header. */
export const tagForm = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

/** Of a suite: a variant's values may stand in it. */
export const tagOfSuiteForm = /^(?:[A-Za-z0-9][A-Za-z0-9._:-]{0,63}|(?=.*\$)[A-Za-z0-9._:${}-]{1,64})$/;

export const tagRule = `a tag is a word of at most ${longest.tag} letters, digits and . _ : - that starts with a letter or a digit`;

export function isTag(text: string): boolean {
  return tagForm.test(text);
}

export function textOfTags(tags: readonly string[]): string {
  return [...new Set(tags)].toSorted().join(',');
}

export function tagsIn(text: string): string[] {
  return text === '' ? [] : text.split(',');
}

/** Undefined if one is no tag, or if there are too many. */
export function readTags(tags: readonly string[]): string | undefined {
  return tags.every(isTag) && new Set(tags).size <= most.tags ? textOfTags(tags) : undefined;
}

export function hasTags(runner: string, needed: string): boolean {
  const own = new Set(tagsIn(runner));
  return tagsIn(needed).every((tag) => own.has(tag));
}
