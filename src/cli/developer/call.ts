import { Client } from '../client/client.ts';
import type { Project } from '../client/operations.ts';
import { findProject, type NamedIn } from './project.ts';
import { Screen } from './screen.ts';
import { openClient } from './session.ts';

export interface CommonOptions {
  project?: string;
  json?: true;
  plain?: true;
  caFile?: string;
  verbose?: true;
}

export class Call<Options = object> implements Disposable {
  readonly options: Readonly<Options & CommonOptions>;
  readonly env = process.env;
  readonly cwd = process.cwd();
  readonly screen: Screen;
  #client: Client | undefined;

  constructor(options: Options & CommonOptions, screen?: Screen) {
    this.options = options;
    this.screen = screen ?? new Screen(options, this.env);
  }

  get caFile(): string | undefined {
    return this.options.caFile ?? (this.env.HEADRACE_CA_FILE || undefined);
  }

  get client(): Client {
    this.#client ??= openClient(this.env, this.caFile);
    return this.#client;
  }

  /** `named` is a project that a file names. */
  project(named?: NamedIn): Promise<Project> {
    return findProject(this, this.options.project ?? (this.env.HEADRACE_PROJECT || undefined), named);
  }

  [Symbol.dispose](): void {
    this.#client?.close();
  }
}
