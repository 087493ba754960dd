import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { hasProgram } from '../support/program.ts';
import type { Outcome } from './machine.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The base image of the Dockerfile, and its release of Debian. */
const BASE = { name: 'docker.io/library/node:24-bookworm-slim', debian: 'bookworm' };

const IMAGE = 'localhost/workbook-mirror:test';

/** Additional certificate authorities of this machine, which npm needs for the registry. */
const AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt';

const BUILD_TIMEOUT_MS = 400_000;
const COMMAND_TIMEOUT_MS = 60_000;

/** Container tools with their own store, in which the image of this clone is built. */
export type Images = Awaited<ReturnType<typeof buildImage>>;

/** Why no image can be built here; undefined if one can. */
export function whyNoImages(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'building an image here needs root on Linux';
  const missing = ['buildah', 'podman', 'runc', 'debootstrap', 'npm'].filter((name) => !hasProgram(name));
  return missing.length === 0 ? undefined : `building an image needs ${missing.join(', ')}`;
}

/**
 * Builds the Dockerfile. The base image is made of Debian's packages and the Node that runs the tests, in a separate store that is kept
 * for this version of Node.
 * @throws Error with the output of the tool
 */
export async function buildImage() {
  const home = join(tmpdir(), `workbook-mirror-images-${BASE.debian}-${process.version}`);
  await mkdir(home, { recursive: true, mode: 0o700 });
  const store = ['--root', join(home, 'storage'), '--runroot', join(home, 'run')];
  const podman = (...args: readonly string[]): Promise<Outcome> =>
    command('podman', [...store, '--runtime=runc', '--cgroup-manager=cgroupfs', ...args], COMMAND_TIMEOUT_MS);
  if ((await podman('image', 'exists', BASE.name)).exitCode !== 0) await makeBase(home, store);
  // The substitute does not have the pinned digest of the base image, and buildah would ask the registry for it.
  const pinned = await readFile(join(ROOT, 'Dockerfile'), 'utf8');
  const dockerfile = join(home, 'Dockerfile');
  await writeFile(dockerfile, pinned.replaceAll(/@sha256:[0-9a-f]{64}/g, ''));
  const settings = join(home, 'npmrc');
  await writeFile(settings, existsSync(AUTHORITIES) ? `cafile=${AUTHORITIES}\n` : '');
  const mounts = existsSync(AUTHORITIES) ? [`--volume=${AUTHORITIES}:${AUTHORITIES}:ro`] : [];
  // prettier-ignore
  await demand('buildah', [...store, 'bud', '--format=docker', '--isolation=chroot', '--layers=false', ...mounts,
    `--volume=${settings}:/usr/local/etc/npmrc:ro`, `--tag=${IMAGE}`, `--file=${dockerfile}`, ROOT]);
  return {
    image: IMAGE,
    podman,
    /** Removes the built image; the base stays for the next run. */
    close: async () => {
      await podman('image', 'rm', '--force', IMAGE);
      await podman('image', 'prune', '--force');
    },
  };
}

/** Makes the substitute for the base image: minimal Debian, Node and npm. */
async function makeBase(home: string, store: readonly string[]): Promise<void> {
  const work = await mkdtemp(join(home, 'base-'));
  try {
    const root = join(work, 'root');
    await demand('debootstrap', ['--variant=minbase', '--include=ca-certificates', BASE.debian, root]);
    const local = join(root, 'usr/local');
    await copyFile(await realpath(process.execPath), join(local, 'bin/node'));
    const found = execFileSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).trim();
    const npm = join(dirname(await realpath(found)), '..');
    await cp(npm, join(local, 'lib/node_modules/npm'), { recursive: true });
    for (const name of ['npm', 'npx'])
      await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(local, 'bin', name));
    const archive = join(work, 'base.tar');
    await demand('tar', ['--directory', root, '--create', '--file', archive, '.']);
    const variables = 'ENV=PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    await demand('podman', [
      ...store,
      'import',
      `--change=${variables}`,
      '--change=CMD ["node"]',
      archive,
      BASE.name,
    ]);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Runs a command, and kills it if it takes too long. */
function command(program: string, args: readonly string[], timeoutMs: number): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024, killSignal: 'SIGKILL' } as const;
    const child = execFile(program, args, options, (_error, stdout, stderr) =>
      resolve({ exitCode: child.exitCode, stdout, stderr }),
    );
  });
}

async function demand(program: string, args: readonly string[]): Promise<void> {
  const { exitCode, stdout, stderr } = await command(program, args, BUILD_TIMEOUT_MS);
  if (exitCode !== 0) throw new Error(`${program} ended with ${exitCode}:\n${stdout}${stderr}`);
}
