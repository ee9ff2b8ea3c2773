/** By the files at the top of a repository. The first match is used. */
const suggestions: readonly { file: RegExp; name: string; command: string }[] = [
  { file: /^pnpm-lock\.yaml$/, name: 'test', command: 'corepack enable\npnpm install --frozen-lockfile\npnpm test' },
  { file: /^yarn\.lock$/, name: 'test', command: 'corepack enable\nyarn install --immutable\nyarn test' },
  { file: /^package-lock\.json$/, name: 'test', command: 'npm ci\nnpm test' },
  { file: /^package\.json$/, name: 'test', command: 'npm install\nnpm test' },
  { file: /^Cargo\.toml$/, name: 'test', command: 'cargo test' },
  { file: /^go\.mod$/, name: 'test', command: 'go test ./...' },
  {
    file: /^pyproject\.toml$/,
    name: 'test',
    command: 'python3 -m venv .venv\n. .venv/bin/activate\npip install . pytest\npytest',
  },
  {
    file: /^(?:requirements\.txt|setup\.py)$/,
    name: 'test',
    command: 'python3 -m venv .venv\n. .venv/bin/activate\npip install -r requirements.txt pytest\npytest',
  },
  { file: /^pom\.xml$/, name: 'test', command: 'mvn --batch-mode verify' },
  { file: /^gradlew$/, name: 'test', command: './gradlew check' },
  { file: /^build\.gradle(?:\.kts)?$/, name: 'test', command: 'gradle check' },
  { file: /^mix\.exs$/, name: 'test', command: 'mix deps.get\nmix test' },
  { file: /^Gemfile$/, name: 'test', command: 'bundle install\nbundle exec rake test' },
  { file: /^composer\.json$/, name: 'test', command: 'composer install --no-interaction\ncomposer test' },
  { file: /^(?:[^/]+\.sln|[^/]+\.csproj)$/, name: 'test', command: 'dotnet test' },
  { file: /^meson\.build$/, name: 'test', command: 'meson setup build\nmeson test -C build' },
  { file: /^CMakeLists\.txt$/, name: 'test', command: 'cmake -B build\ncmake --build build\nctest --test-dir build' },
  { file: /^configure$/, name: 'test', command: './configure\nmake\nmake check' },
  { file: /^(?:GNUmakefile|[Mm]akefile)$/, name: 'test', command: 'make test' },
];

export interface Suggestion {
  name: string;
  command: string;
  why?: string;
}

export function suggestedSuite(files: readonly string[]): Suggestion {
  for (const { file, name, command } of suggestions) {
    const why = files.find((one) => file.test(one));
    if (why !== undefined) return { name, command, why };
  }
  return { name: 'test', command: '' };
}
