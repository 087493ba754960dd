import { chmodSync, mkdirSync, statfsSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { describeFindings } from '../../../src/cli/settings/findings.ts';
import { settingsFindings } from '../../../src/cli/settings/config.ts';
import { exposedSecretFiles } from '../../../src/config/changes.ts';
import { loadSettings } from '../../../src/config/load.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const isTmpfs = (folder: string): boolean => statfsSync(folder).type === 0x0102_1994;

const isPrivate = (folder: string): boolean =>
  (statSync(folder).mode & 0o001) === 0 || (folder !== '/' && isPrivate(dirname(folder)));

/** A folder for temporary files that is kept over a restart, and so lies on a disk: other tests work in memory. */
const ON_DISK = '/var/tmp';

/** Files in memory or in a folder of one user do not count. */
const NONE_COUNTS = isTmpfs(ON_DISK) || isPrivate(await realpath(ON_DISK));

/** A key in a file and a folder with given modes. */
async function keyIn(mode: number, folderMode: number) {
  vi.stubEnv('TMPDIR', ON_DISK);
  const root = await temporaryFolder();
  chmodSync(root, 0o755);
  const folder = join(root, 'secrets');
  const path = join(folder, 'key');
  mkdirSync(folder);
  writeFileSync(path, 'any-key\n');
  chmodSync(path, mode);
  chmodSync(folder, folderMode);
  return { root, path };
}

function loadedWith(path: string) {
  const env = { WORKBOOK_MIRROR_SERVICE_API_KEY_FILE: path };
  return loadSettings({ flags: {}, env, needs: [], defaultConfigFile: '/nonexistent/config.yaml' });
}

function shownOf(loaded: Parameters<typeof settingsFindings>[0]): string {
  return String(describeFindings(settingsFindings(loaded)));
}

describe('the file of a secret', () => {
  it.skipIf(NONE_COUNTS).each([
    ['everybody can read', 0o644, 0o755, true],
    ['its group can read', 0o640, 0o755, false],
    ['its owner alone can read', 0o400, 0o755, false],
    ['is in a folder that no other user can enter', 0o644, 0o700, false],
  ])('that %s: mode %o in %o', async (_, mode, folderMode, expected) => {
    const { path } = await keyIn(mode, folderMode);
    expect(exposedSecretFiles(loadedWith(path).settings)).toEqual(expected ? [path] : []);
    const shown = shownOf(loadedWith(path));
    expect(shown.includes('warning ')).toBe(expected);
    expect(shown).not.toContain('any-key');
  });

  it.skipIf(NONE_COUNTS)('is checked behind a link', async () => {
    const { root, path } = await keyIn(0o644, 0o755);
    const link = join(root, 'link');
    symlinkSync(path, link);
    expect(exposedSecretFiles(loadedWith(link).settings)).toEqual([link]);
  });

  it('is left to the platform if it lies in memory', async ({ skip }) => {
    vi.stubEnv('TMPDIR', '/dev/shm');
    const folder = await temporaryFolder().catch(() => null);
    if (folder === null || !isTmpfs(folder)) return skip('/dev/shm is no tmpfs');
    chmodSync(folder, 0o755);
    const path = join(folder, 'key');
    writeFileSync(path, 'any-key\n', { mode: 0o644 });
    expect(exposedSecretFiles(loadedWith(path).settings)).toEqual([]);
    return undefined;
  });

  it.skipIf(NONE_COUNTS)('may be the settings file if that contains a secret', async () => {
    const { path } = await keyIn(0o644, 0o755);
    const checked = (text: string): string => {
      writeFileSync(path, text);
      return shownOf(loadSettings({ flags: {}, env: {}, configFile: path, needs: [] }));
    };
    expect(checked('service:\n  apiKey: any-key\n')).toContain(`can read ${path}, which holds a secret`);
    expect(checked('service:\n  baseUrl: https://service.example.com/api\n')).not.toContain('warning ');
    chmodSync(path, 0o600);
    expect(checked('service:\n  apiKey: any-key\n')).not.toContain('warning ');
  });
});
