export interface Served {
  path: string;
  methods: readonly string[];
}

export function methodsByPath(routes: readonly Served[]): (path: string) => string[] {
  // Made on first use: a server has hundreds of routes, and most requests know their method.
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
