import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { makeFolders } from '../../../../../src/lib/disk/durable.ts';
import { renameIfThere } from '../../../../../src/mirror/store/publish/renames.ts';
import { temporaryFolder } from '../../../../support/temporary.ts';

vi.mock('../../../../../src/lib/disk/durable.ts', () => ({ makeFolders: vi.fn() }));

describe('renameIfThere', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await temporaryFolder();
    vi.mocked(makeFolders).mockReset();
  });

  it('does nothing where there is nothing', async () => {
    expect(await renameIfThere(join(folder, 'from'), join(folder, 'to'))).toBe(false);
    expect(makeFolders).not.toHaveBeenCalled();
  });

  it('goes on when another instance removed the folder that was made', async () => {
    writeFileSync(join(folder, 'from'), 'text');
    let tries = 0;
    vi.mocked(makeFolders).mockImplementation((path) => {
      tries += 1;
      if (tries === 3) mkdirSync(path);
      return Promise.resolve([]);
    });
    expect(await renameIfThere(join(folder, 'from'), join(folder, 'a', 'to'))).toBe(true);
    expect(readFileSync(join(folder, 'a', 'to'), 'utf8')).toBe('text');
  });

  it('fails when the folder is gone each time, and loses nothing', async () => {
    writeFileSync(join(folder, 'from'), 'text');
    vi.mocked(makeFolders).mockResolvedValue([]);
    await expect(renameIfThere(join(folder, 'from'), join(folder, 'a', 'to'))).rejects.toThrow('ENOENT');
    expect(existsSync(join(folder, 'from'))).toBe(true);
  });
});
