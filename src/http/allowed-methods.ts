import type { FastifyInstance } from 'fastify';

/** Notes all routes, and then tells the methods of a path as the header `Allow` has them; undefined for an unknown path. */
export function allowedMethods(server: FastifyInstance): (path: string) => string | undefined {
  const routes: { form: RegExp; methods: string[] }[] = [];
  server.addHook('onRoute', ({ path, method }) => void routes.push({ form: formOf(path), methods: [method].flat() }));
  return (path) => {
    const methods = routes.filter(({ form }) => form.test(path)).flatMap((route) => route.methods);
    return methods.length === 0 ? undefined : [...new Set(methods)].toSorted().join(', ');
  };
}

function formOf(path: string): RegExp {
  return new RegExp(`^${path.split('/').map(partForm).join('/')}$`);
}

function partForm(part: string): string {
  return part.startsWith(':') ? '[^/]+' : RegExp.escape(part).replaceAll('\\*', '.*');
}
