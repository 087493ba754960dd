import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished, vi } from 'vitest';

import { makeCommits } from '../../../../src/server/demo/commits.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { openRegistry } from '../../../../src/server/git/repositories.ts';
import { plan, write } from '../../../support/commits.ts';
import { KEY, startGitService } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { unzip } from '../../../support/zip-reader.ts';

const SIZE_BYTES = 100_000_000;
/** Enough for git itself, and a fraction of the file. */
const MEMORY_KIB = 80_000;

it.runIf(process.platform === 'linux')(
  'a large file is whole for any kind of access, and never in memory as a whole',
  async () => {
    const git = new Git();
    onTestFinished(() => git.stop());
    const registry = await openRegistry(await temporaryFolder());
    const { baseUrl } = await startGitService(registry);
    const gitDirectory = registry.gitDirectory((await registry.create('Plans')).id);
    const bytes = Buffer.alloc(SIZE_BYTES, 'workbook');
    await makeCommits(git, gitDirectory, [plan('main', [write('large.xlsx', bytes)])]);
    await git.run(gitDirectory, ['repack', '--quiet', '-a', '-d']);
    // The service runs a git that may take no more memory than that.
    const folder = await temporaryFolder();
    const path = process.env['PATH'] ?? '';
    const limited = `#!/bin/sh\nPATH='${path}'\nulimit -S -v ${MEMORY_KIB}\nexec git "$@"\n`;
    await writeFile(join(folder, 'git'), limited, { mode: 0o755 });
    vi.stubEnv('PATH', `${folder}:${path}`);
    const contents = async (of: string): Promise<Buffer> => {
      const address = `${baseUrl}/repos/Plans/contents${of}`;
      const answer = await fetch(address, { headers: { 'x-api-key': KEY } });
      expect(answer.status).toBe(200);
      return Buffer.from(await answer.arrayBuffer());
    };
    expect((await contents('/large.xlsx')).equals(bytes)).toBe(true);
    const files = await unzip(await contents(''));
    expect([...files.keys()]).toEqual(['large.xlsx']);
    expect(files.get('large.xlsx')?.equals(bytes)).toBe(true);
  },
);
