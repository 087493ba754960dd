import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { EntryFile } from '../../../../src/mirror/file-work/entry-file.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('an entry that is closed after its end takes no memory from the entry that has it now', async () => {
  const folder = await temporaryFolder();
  const entry = (name: string): EntryFile =>
    new EntryFile({
      place: join(folder, name),
      isDeflated: false,
      isPastCache: false,
      known: null,
      mostBytes: 100,
      timeMs: 0,
    });
  const take = async (file: EntryFile, text: string): Promise<void> => {
    for (let at = 0; at < text.length; at += 1)
      await file.write(Buffer.from(text.slice(at, at + 1)), at === text.length - 1);
  };
  const ended = entry('ended');
  await take(ended, 'ab');
  await ended.end(null);
  const one = entry('one');
  await ended.close();
  const two = entry('two');
  await take(one, 'first');
  await take(two, 'other');
  await one.end(null);
  await two.end(null);
  expect(await readFile(join(folder, 'one'), 'utf8')).toBe('first');
});
