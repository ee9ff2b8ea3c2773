import type { FastifyInstance } from 'fastify';

/** Notes all routes, and then tells the methods of a path as the header `Allow` has them; undefined for an unknown path. */
export function allowedMethods(server: FastifyInstance): (path: string) => string | undefined {
  const routes: { path: string; methods: string[] }[] = [];
  server.addHook('onRoute', ({ path, method }) => void routes.push({ path, methods: [method].flat() }));
  // Made when they are first needed: a server has hundreds of routes, and most requests know their method.
  let forms: RegExp[] | undefined;
  return (path) => {
    forms ??= routes.map((route) => formOf(route.path));
    const methods = forms.flatMap((form, at) => (form.test(path) ? (routes[at]?.methods ?? []) : []));
    return methods.length === 0 ? undefined : [...new Set(methods)].toSorted().join(', ');
  };
}

function formOf(path: string): RegExp {
  return new RegExp(`^${path.split('/').map(partForm).join('/')}$`);
}

function partForm(part: string): string {
  return part.startsWith(':') ? '[^/]+' : RegExp.escape(part).replaceAll('\\*', '.*');
}
