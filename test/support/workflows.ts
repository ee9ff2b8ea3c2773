import type { WorkflowFile } from '../../src/shared/domain/workflow-files.ts';
import type { Record_ } from './client.ts';
import type { Service } from './service.ts';

/* Files of other CI systems, as a check of a project's repository finds them. */

const workflow = `name: CI
on: push
env: { LEVEL: '3' }
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: make
  test:
    needs: build
    runs-on: ubuntu-latest
    steps:
      - run: make test
        env: { TOKEN: '\${{ secrets.NPM_TOKEN }}' }
      - uses: some/action@v1
`;
export const ci = { path: '.github/workflows/ci.yml', text: workflow };

/** As the last check of the connection found it. */
export async function seen(
  service: Service,
  project: Record_,
  workflows: WorkflowFile[],
  files: string[] = [],
): Promise<void> {
  const { db, ids } = service.store;
  const paths = workflows.map(({ path }) => path);
  const answer = { connected: true, message: 'Connected.', default_branch: 'main', branches: ['main'], files };
  const row = { id: ids.next(), project_id: project.id, created_at: BigInt(Date.now()) };
  await db.transaction((trx) =>
    trx
      .insertInto('connection_checks')
      .values({
        ...row,
        answer: JSON.stringify({ ...answer, workflows: paths }),
        workflows: JSON.stringify(workflows),
      })
      .execute(),
  );
}
