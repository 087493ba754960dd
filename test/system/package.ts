import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** What the build reads, and what goes into the package beside its result. */
const PARTS = [
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
 * Builds the package apart, as `npm run build` does, so that the clone's `dist` stays as it is, and puts it into a folder. The
 * folder `node_modules` in it is empty afterwards.
 * @throws Error with what the build says when it fails
 */
export async function buildPackageIn(folder: string): Promise<void> {
  // Not in the folder itself: below `node_modules`, TypeScript takes our JavaScript for that of a dependency.
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
