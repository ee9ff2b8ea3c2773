import type { Config } from '../config.ts';
import { longest, most } from '../lib/bounds.ts';
import { readTags } from '../lib/tags.ts';
import { WrongUse } from '../commands/errors.ts';

/** The configuration with the tags of the command line, if there are any, in the form in which they are sent. */
export function withTags(config: Config, given: readonly string[] | undefined): Config {
  const tags = readTags(given ?? config.tags.split(/[\s,]+/).filter((tag) => tag !== ''));
  if (tags === undefined) {
    throw new WrongUse(
      `a runner has at most ${most.tags} tags, and a tag is a word of at most ${longest.tag} letters, digits and . _ : - that begins with a letter or a digit`,
    );
  }
  return { ...config, tags };
}
