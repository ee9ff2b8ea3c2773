import type { ToolName } from './images.ts';

export interface Language {
  tool?: ToolName;
  /** The key with the versions. */
  key?: string;
  install?: string;
  script?: string;
}

/** What Travis runs by itself for a language. */
export const languages: Readonly<Record<string, Language>> = {
  node_js: {
    tool: 'node',
    key: 'node_js',
    install:
      'if [ -f yarn.lock ]; then yarn --frozen-lockfile; elif [ -f package-lock.json ]; then npm ci; else npm install; fi',
    script: 'npm test',
  },
  python: { tool: 'python', key: 'python', install: 'pip install -r requirements.txt' },
  go: {
    tool: 'go',
    key: 'go',
    install: 'go get -t -v ./...',
    script: 'if [ -f Makefile ]; then make; else go test -v ./...; fi',
  },
  java: {
    tool: 'java',
    key: 'jdk',
    install: 'if [ -f gradlew ]; then ./gradlew assemble; elif [ -f mvnw ]; then ./mvnw install -DskipTests=true; fi',
    script: 'if [ -f gradlew ]; then ./gradlew check; else ./mvnw test -B; fi',
  },
  ruby: { tool: 'ruby', key: 'rvm', install: 'bundle install --jobs=3 --retry=3', script: 'bundle exec rake' },
  php: { tool: 'php', key: 'php', script: 'phpunit' },
  rust: { tool: 'rust', key: 'rust', install: 'cargo build --verbose', script: 'cargo test --verbose' },
  perl: {
    tool: 'perl',
    key: 'perl',
    install: 'cpanm --quiet --installdeps --notest .',
    script: 'perl Makefile.PL && make test',
  },
  elixir: {
    tool: 'elixir',
    key: 'elixir',
    install: 'mix local.rebar --force\nmix local.hex --force\nmix deps.get',
    script: 'mix test',
  },
  haskell: {
    tool: 'haskell',
    key: 'ghc',
    install: 'cabal install --only-dependencies --enable-tests',
    script: 'cabal configure --enable-tests && cabal build && cabal test',
  },
  generic: {},
  minimal: {},
  shell: {},
  bash: {},
  sh: {},
  c: { script: './configure && make && make test' },
  cpp: { script: './configure && make && make test' },
};
