import { readdir, readlink } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { openMirror } from '../../../src/app/open-mirror.ts';
import { mirrorSettings } from '../../support/settings.ts';
import { temporaryFolder } from '../../support/temporary.ts';

it('a mirror that cannot be opened leaves no file open', async () => {
  const directory = await temporaryFolder();
  const service = { SERVICE_BASE_URL: 'http://localhost:1/api', SERVICE_API_KEY: 'key' };
  const settings = mirrorSettings({ ...service, DIRECTORY: directory, HOOKS_BEFORE_PUBLISH: '/missing' });
  await expect(openMirror(settings, () => {})).rejects.toThrow('/missing');
  const open = (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ''));
  expect((await Promise.all(open)).filter((file) => file.startsWith(directory))).toEqual([]);
});
