import type * as FileSystem from 'node:fs/promises';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { startPair } from '../../../../support/mirror-harness.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

const fault = vi.hoisted(() => ({ code: 'EPERM' }));

vi.mock('node:fs/promises', async (importOriginal) => ({
  ...(await importOriginal<typeof FileSystem>()),
  link: () => Promise.reject(Object.assign(new Error(`${fault.code}: no links here`), { code: fault.code })),
}));

describe.each(['EPERM', 'ENOTSUP', 'EMLINK', 'EXDEV'])(
  'on a file system that answers %s to link(2)',
  (code) => {
    it('the command before publishing sees copies, and the history keeps them', async () => {
      fault.code = code;
      const seen = join(await temporaryFolder(), 'seen');
      const command = JSON.stringify(['/bin/sh', '-c', `cat a.xlsx sub/b.xlsx > ${seen}`]);
      const { service, mirror } = await startPair(
        {},
        { HOOKS_BEFORE_PUBLISH: command, PUBLISH: 'rename', HISTORY_REPLACED: '5' },
      );
      const plan = service.addRepository('Plan', { 'a.xlsx': 'a1', 'sub/b.xlsx': 'b1' });
      expect((await mirror.pass()).exitCode).toBe(0);
      service.write(plan, 'main', 'a.xlsx', 'a2');
      expect((await mirror.pass()).exitCode).toBe(0);
      expect(await readFile(seen, 'utf8')).toBe('a2b1');
      await mirror.expectExact();
      const kept = await mirror.files('history');
      const texts = [...kept.values()].map(String);
      expect(texts).toContain('a1');
      expect(texts).not.toContain('b1');
    });
  },
);

it('a link that fails for another reason fails the publish', async () => {
  const script = join(await temporaryFolder(), 'gate.sh');
  await writeFile(script, 'true');
  const { service, mirror } = await startPair(
    {},
    { HOOKS_BEFORE_PUBLISH: JSON.stringify(['/bin/sh', script]) },
  );
  // The start tries links out, too.
  fault.code = 'EIO';
  service.addRepository('Plan', { 'a.xlsx': 'a1' });
  expect(await mirror.results()).toMatchObject({ 'Plan/main': { outcome: 'failed', code: 'disk.failed' } });
});
