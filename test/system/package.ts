import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** The files that the build reads, and those that the package contains besides its result: not all of a working tree. */
export const PARTS = [
  'package.json',
  '.ci/build.ts',
  'tsconfig.json',
  'README.md',
  'LICENSE',
  'src',
  'config',
  'systemd',
];

/** The folder with the dependencies of this clone. */
export const DEPENDENCIES = join(ROOT, 'node_modules');

/**
 * Builds the package like `npm run build`, but into another folder, so that the clone's `dist` stays unchanged. Its folder
 * `node_modules` is empty.
 * @throws Error with the output of a failed build
 */
export async function buildPackageIn(folder: string): Promise<void> {
  // Build elsewhere: below `node_modules`, TypeScript takes our JavaScript for a dependency.
  const built = await mkdtemp(join(tmpdir(), 'workbook-mirror-build-'));
  try {
    for (const part of PARTS) await cp(join(ROOT, part), join(built, part), { recursive: true });
    await symlink(DEPENDENCIES, join(built, 'node_modules'));
    const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'build'], {
      cwd: built,
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`the package cannot be built:\n${stdout}${stderr}`);
    await rm(join(built, 'node_modules'));
    for (const part of ['src', '.ci/build.ts']) await rm(join(built, part), { recursive: true });
    await mkdir(join(folder, 'node_modules'), { recursive: true });
    await cp(built, folder, { recursive: true });
  } finally {
    await rm(built, { recursive: true, force: true });
  }
}
