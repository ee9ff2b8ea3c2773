import { longest, most } from './bounds.ts';

/**
 * Tags: words by which a suite chooses its runners. A runner may do work that needs tags only if it has all of them.
 * They are stored and sent as one text, sorted and with commas between them, so that the same tags are the same text.
 */

/** Nothing that a shell, a list or a header would read as something else. */
export const tagForm = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

/** The advice for somebody who wrote something else. */
export const tagRule = `a tag is a word of at most ${longest.tag} letters, digits and . _ : - that begins with a letter or a digit`;

export function isTag(text: string): boolean {
  return tagForm.test(text);
}

export function textOfTags(tags: readonly string[]): string {
  return [...new Set(tags)].toSorted().join(',');
}

export function tagsIn(text: string): string[] {
  return text === '' ? [] : text.split(',');
}

/** The text of these tags; undefined where one of them is no tag, or where they are too many. */
export function readTags(tags: readonly string[]): string | undefined {
  return tags.every(isTag) && new Set(tags).size <= most.tags ? textOfTags(tags) : undefined;
}

/** Whether a runner with these tags may do work that needs those. */
export function hasTags(runner: string, needed: string): boolean {
  const own = new Set(tagsIn(runner));
  return tagsIn(needed).every((tag) => own.has(tag));
}
