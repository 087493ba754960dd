import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { initialise } from '../../src/server/git/bare.ts';
import { Git } from '../../src/server/git/git.ts';
import { saying } from '../support/in-process.ts';
import { run, start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const KEY = 'a-key-of-the-tests';

describe('repos create', () => {
  it('creates repositories in the embedded service, which one process serves at a time', async () => {
    const folder = await temporaryFolder();
    const settings = {
      WORKBOOK_MIRROR_SERVE_DIRECTORY: join(folder, 'service'),
      WORKBOOK_MIRROR_SERVE_LISTEN: '127.0.0.1:0',
      WORKBOOK_MIRROR_SERVE_API_KEY: KEY,
      WORKBOOK_MIRROR_SERVE_SOURCES: 'any',
    };
    const service = start(['serve'], settings);
    await service.prints(/^http:.*\/api$/m);
    const other = await run(['serve'], settings);
    expect(other).toMatchObject({ exitCode: 4, stderr: saying(/serves .*\(pid \d+.*serve\.directory/s) });

    const client = {
      WORKBOOK_MIRROR_SERVICE_BASE_URL: service.stdout().trim(),
      WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
    };
    const source = join(folder, 'plan.git');
    await initialise(new Git(), source);
    const created = await run(['repos', 'create', '--name', 'Accounting'], client);
    expect(created).toMatchObject({ exitCode: 0, stdout: saying(/Accounting +drag-and-drop/) });
    const external = await run(['repos', 'create', '--url', source, '--json'], client);
    expect(JSON.parse(external.stdout)).toMatchObject({
      name: 'plan',
      fullName: `localhost${source}`,
      url: source,
    });
    await service.prints(/plan\.git: cloned/);

    const again = await run(['repos', 'create', '--name', 'Accounting'], client);
    expect(again).toMatchObject({ exitCode: 2, stdout: '', stderr: saying(/409.*exists already/) });
    const password = join(folder, 'password');
    await writeFile(password, 'a-password\n');
    const flags = ['--url', 'http://127.0.0.1:1/x.git', '--username', 'u', '--password-file', password];
    const unreachable = await run(['repos', 'create', ...flags], client);
    expect(unreachable).toMatchObject({ exitCode: 2, stderr: saying(/422.*cannot be read/) });
    expect(unreachable.stderr + service.stderr()).not.toContain('a-password');

    const list = await run(['repos', 'list'], client);
    expect(list.stdout).toMatch(/Accounting.*plan\.git.*2 repositories/s);
    expect(await service.stop()).toMatchObject({ exitCode: 0 });
    const next = start(['serve'], settings);
    await next.prints(/Serving 2 repositories/);
  });
});
