export interface Served {
  path: string;
  methods: readonly string[];
}

/** Tells the methods of a path; none of one that is unknown. */
export function methodsByPath(routes: readonly Served[]): (path: string) => string[] {
  // Made when they are first needed: a server has hundreds of routes, and most requests know their method.
  let forms: RegExp[] | undefined;
  return (path) => {
    forms ??= routes.map((route) => formOf(route.path));
    return [...new Set(forms.flatMap((form, at) => (form.test(path) ? (routes[at]?.methods ?? []) : [])))];
  };
}

function formOf(path: string): RegExp {
  return new RegExp(`^${path.split('/').map(partForm).join('/')}$`);
}

function partForm(part: string): string {
  return part.startsWith(':') ? '[^/]+' : RegExp.escape(part).replaceAll('\\*', '.*');
}
