/** Where other CI systems have their files: a path, or the folder of several. */
export const usualFiles = [
  '.gitlab-ci.yml',
  '.woodpecker.yml',
  '.woodpecker.yaml',
  '.drone.yml',
  '.travis.yml',
] as const;
export const usualFolders = ['.github/workflows', '.woodpecker'] as const;

export const isWorkflowFile = (path: string): boolean => /\.ya?ml$/i.test(path);

/** The usual names of a project's own file, at the top of its repository. */
export const ownFiles = ['.headrace.toml', '.headrace.yml'];

/** A file as found in a repository, or in words why it was not read. */
export type WorkflowFile = { path: string; text: string } | { path: string; problem: string };
