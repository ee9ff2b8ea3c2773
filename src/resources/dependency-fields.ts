import { ApiError } from '../errors.ts';
import { identifiers, required, text, withDefault, type Field } from '../http/fields.ts';
import { command, description, image, name } from './forms.ts';

/** Directories that the sandbox itself needs. A dependency can be neither there, nor below, nor above. */
const sandboxDirectories = new Set(['usr', 'bin', 'sbin', 'etc', 'proc', 'sys', 'dev', 'tmp', 'run', 'build']);
const deeperDirectories = ['/home/build', '/var/run', '/var/tmp'];

function isReserved(prefix: string): boolean {
  const [top = ''] = prefix.split('/').filter((part) => part !== '');
  if (top === '' || top.startsWith('lib') || sandboxDirectories.has(top)) return true;
  return deeperDirectories.some((needed) => `${needed}/`.startsWith(`${prefix}/`) || prefix.startsWith(`${needed}/`));
}

/** An absolute path in normal form, so that two spellings cannot mean one place. */
function prefix(): Field<string> {
  const form = text('path', { pattern: /^\/(?!.*\/\/)[^\0]*$/, description: 'an absolute path' });
  return {
    ...form,
    parse(raw) {
      const value = form.parse(raw);
      const plain = value.length > 1 && value.endsWith('/') ? value.slice(0, -1) : value;
      if (plain.split('/').some((part) => part === '.' || part === '..')) throw new ApiError('invalid_format');
      if (isReserved(plain)) throw new ApiError('is_reserved');
      return plain;
    },
  };
}

/** A directory inside the archive. */
const source = text('path', {
  check: (value) => !value.startsWith('/') && !value.split('/').includes('..'),
});

export const dependencyFields = {
  name: required(name()),
  command: required(command()),
  prefix: withDefault(prefix(), '/srv/dependency'),
  source,
  launch_command: command(),
  description: description(),
  image: image(),
  'related_dependencies[]': identifiers('relatedDependencies'),
};

/** Whether the command contains the prefix as a path, and not only as the start of a longer name. */
export function namesPrefix(command: string, prefix: string): boolean {
  for (let at = command.indexOf(prefix); at >= 0; at = command.indexOf(prefix, at + 1)) {
    const next = command[at + prefix.length] ?? '';
    if (!/[A-Za-z0-9._-]/.test(next)) return true;
  }
  return false;
}
