import { spawnSync } from 'node:child_process';
import { cp, mkdir, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** What the build reads, and what goes into the package beside its result. */
const PARTS = ['package.json', 'tsconfig.json', 'README.md', 'LICENSE', 'src', 'config', 'systemd'];

/** The folder with the dependencies of this clone. */
export const DEPENDENCIES = join(ROOT, 'node_modules');

/**
 * Builds the package in a folder of its own, as `npm run build` does, so that the clone's `dist` stays as it is. The folder
 * `node_modules` in it is empty afterwards.
 * @throws Error with what the build says when it fails
 */
export async function buildPackageIn(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const part of PARTS) await cp(join(ROOT, part), join(folder, part), { recursive: true });
  const dependencies = join(folder, 'node_modules');
  await symlink(DEPENDENCIES, dependencies);
  const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`the package cannot be built:\n${stdout}${stderr}`);
  await rm(dependencies);
  await mkdir(dependencies);
  await rm(join(folder, 'src'), { recursive: true });
}
