import { areCachePaths } from '../domain/cache-paths.ts';
import { longest, most } from '../domain/bounds.ts';
import { compileGlob } from '../domain/globs.ts';
import { isReservedVariable, variableNameForm } from '../domain/variable-names.ts';
import { serviceName } from '../records/service.ts';
import { tidyName } from './names.ts';
import { textsOf, type Service, type Suite, type Variable } from './model.ts';

/** Returns why the paths cannot be cached. Those that can be are. */
export function addCache(suite: Suite, paths: readonly string[]): string | undefined {
  const wanted = paths
    .map((one) =>
      one
        .trim()
        .replace(/^(?:\$HOME|\$\{HOME\}|\/root|\/home\/\w+)\//, '~/')
        .replace(/^(?:\.|\$CI_PROJECT_DIR|\$\{\{ *github\.workspace *\}\})\//, '')
        .replace(/(?:\/\*{0,2})?\/?$/, ''),
    )
    .filter((one) => one !== '');
  const wrong: string[] = [];
  for (const path of wanted) {
    if (suite.cache.some((other) => other === path || path.startsWith(`${other}/`))) continue;
    const next = [...suite.cache.filter((other) => !other.startsWith(`${path}/`)), path];
    if (areCachePaths(next) && !/[*?[\]{}$]/.test(path)) suite.cache = next;
    else wrong.push(path);
  }
  return wrong.length === 0
    ? undefined
    : `a cache takes plain paths of the files or the home: ${wrong.join(', ').slice(0, 200)}`;
}

/** Returns why the patterns cannot be artifacts. Those that can be are. */
export function addArtifacts(suite: Suite, patterns: readonly string[]): string | undefined {
  const wanted = patterns
    .map((one) =>
      one
        .trim()
        .replace(/^\.\/(?=.)/, '')
        .replace(/\/+$/, ''),
    )
    .filter((one) => one !== '');
  const wrong: string[] = [];
  for (const given of wanted) {
    const pattern = given === '.' ? '**' : given;
    const isFit =
      !/^[~/!]|(?:^|\/)\.\.(?:\/|$)|[\r\n]/.test(pattern) &&
      pattern.length <= longest.glob &&
      compileGlob(pattern) !== undefined;
    if (isFit && suite.artifacts.length < most.globs) suite.artifacts = [...new Set([...suite.artifacts, pattern])];
    else wrong.push(pattern);
  }
  return wrong.length === 0
    ? undefined
    : `an artifact is a path or a pattern in the files of the build: ${wrong.join(', ').slice(0, 200)}`;
}

/** Returns why it cannot be one. A later one of a name replaces the earlier one. */
export function addVariable(suite: Suite, { name, content }: Variable): string | undefined {
  if (name === 'CI') return undefined;
  if (!variableNameForm.test(name) || name.length > longest.variableName) return 'this is no name of a variable';
  if (isReservedVariable(name)) return 'the name is reserved';
  if (content.includes('\0') || content.length > longest.variableContent) return 'its content is too long';
  suite.variables = [...suite.variables.filter((one) => one.name !== name), { name, content }];
  return undefined;
}

/** Returns why it cannot be one. */
export function addService(suite: Suite, service: Service): string | undefined {
  const name = tidyName(service.name.replace(/^.*\//, '').replace(/[:@].*$/, ''));
  try {
    serviceName.parse(name);
  } catch {
    return 'this is no host name';
  }
  if (suite.services.some((one) => one.name === name)) return `there is another service ${name}`;
  if (suite.services.length >= most.servicesOfSuite) return `a suite has at most ${most.servicesOfSuite} services`;
  if (service.variables.some((one) => !variableNameForm.test(one.name) || isReservedVariable(one.name)))
    return 'one of its variables has a name that is not allowed';
  suite.services.push({ ...service, name });
  return undefined;
}

/** Those that can be tags of runners here. */
export function tagsIn(value: unknown): string[] {
  return textsOf(value)
    .filter((one) => /^[A-Za-z0-9][\w.:-]{0,63}$/.test(one))
    .slice(0, most.tags);
}
