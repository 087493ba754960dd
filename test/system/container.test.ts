import { chmod, chown, mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { type Embedded, startEmbedded } from '../support/embedded.ts';
import { freePort, until } from '../support/stores.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { buildImage, type Images, whyNoImages } from './images.ts';
import type { Outcome } from './machine.ts';

/** Some platforms run containers like this: as an unknown user in the group of root. */
const ARBITRARY_USER = 1_000_770_000;

const PACKAGE = '/usr/local/lib/node_modules/workbook-mirror';

/** Only the volume is writable; there are no privileges and no `/tmp`. */
// prettier-ignore
const LOCKED_IN = ['--no-healthcheck', '--ulimit=nofile=1024:1024', '--ulimit=nproc=1000:1000', '--network=host',
  '--read-only', '--read-only-tmpfs=false', '--cap-drop=ALL', '--security-opt=no-new-privileges'];

const missing = whyNoImages();

describe.skipIf(missing !== undefined)(`the container image (${missing ?? 'as root'})`, () => {
  let images: Images;
  let count = 0;

  beforeAll(async () => {
    images = await buildImage();
  });

  afterAll(() => images.close());

  /** Runs a command in a new container. */
  const runOnce = (options: readonly string[], ...command: readonly string[]): Promise<Outcome> =>
    images.podman('run', '--rm', ...LOCKED_IN, ...options, images.image, ...command);

  /** Options for a container that mirrors the embedded service into a volume, as a user. */
  const mirroring = ({ settings }: Embedded, volume: string, user: string): string[] => {
    const { WORKBOOK_MIRROR_DIRECTORY: _own, ...others } = settings;
    const variables = Object.entries(others).map(([name, value]) => `--env=${name}=${value}`);
    return [`--volume=${volume}:/data`, `--user=${user}`, ...variables];
  };

  /** An empty volume as platforms provide it: owned by root, writable by a group. */
  const volumeFor = async (group: number): Promise<string> => {
    const volume = join(await temporaryFolder(), 'volume');
    await mkdir(volume);
    await chown(volume, 0, group);
    await chmod(volume, 0o2775);
    return volume;
  };

  it('has the program and its manual, without build tools', async () => {
    expect((await runOnce([], '--version')).stdout).toMatch(/\d+\.\d+\.\d+/);
    expect((await runOnce([], '--help')).exitCode).toBe(0);
    const look = await runOnce(
      ['--entrypoint=sh'],
      '-c',
      `cd ${PACKAGE}; ls . node_modules; command -v gcc make python3; touch written /data/written; id -u`,
    );
    expect(look.stdout).toMatch(/^README\.md$/m);
    expect(look.stdout).not.toMatch(/^(src|typescript|vitest|oxlint)$|gcc|make|python/m);
    expect(look.stderr).toMatch(/touch: .*'written'/);
    expect(look.stderr).not.toContain('/data/written');
    expect(look.stdout).toMatch(/^65532$/m);
  });

  it('knows the time zones', async () => {
    const needed = [
      '--env=WORKBOOK_MIRROR_SERVICE_BASE_URL=http://127.0.0.1:1/api',
      '--env=WORKBOOK_MIRROR_SERVICE_API_KEY=k',
    ];
    const { exitCode, stderr } = await runOnce(
      [...needed, '--env=WORKBOOK_MIRROR_TIMEZONE=Australia/Lord_Howe'],
      'config',
      'check',
    );
    expect(exitCode, stderr).toBe(0);
  });

  it('makes one pass as an unknown user', async () => {
    const embedded = await startEmbedded();
    const volume = await volumeFor(0);
    const { exitCode, stderr } = await runOnce(mirroring(embedded, volume, `${ARBITRARY_USER}:0`), 'sync');
    expect(exitCode, stderr).toBe(0);
    expect(await readdir(join(volume, 'mirror'))).not.toEqual([]);
    expect((await stat(join(volume, 'mirror'))).uid).toBe(ARBITRARY_USER);
  });

  it('mirrors until it is stopped, is healthy, and leaves no zombies', async () => {
    const embedded = await startEmbedded();
    const name = `workbook-mirror-test-${process.pid}-${(count += 1)}`;
    const port = await freePort();
    onTestFinished(async () => void (await images.podman('rm', '--force', '--time=0', name)));
    const options = mirroring(embedded, await volumeFor(5000), '65532:5000');
    const listen = `--env=WORKBOOK_MIRROR_HTTP_LISTEN=0.0.0.0:${port}`;
    await images.podman('run', '--detach', `--name=${name}`, ...LOCKED_IN, ...options, listen, images.image);
    const ready = `http://127.0.0.1:${port}/readyz`;
    await until('the readiness', async () => (await fetch(ready).catch(() => null))?.status === 200);

    const check = await healthCheck(images);
    expect((await images.podman('exec', name, ...check)).exitCode).toBe(0);
    expect((await images.podman('exec', name, 'workbook-mirror', 'status')).exitCode).toBe(0);

    await images.podman('exec', name, 'sh', '-c', '(sleep 0.1 & exec true)');
    await sleep(500);
    const processes = await images.podman('exec', name, 'sh', '-c', 'cat /proc/[0-9]*/stat');
    expect(processes.stdout).toMatch(/^1 \(tini\)/m);
    expect(processes.stdout).not.toMatch(/\) Z /);

    await images.podman('kill', '--signal=HUP', name);
    const log = async (): Promise<string> => (await images.podman('logs', name)).stdout;
    await until('the pass', async () => (await log()).includes('"trigger":"signal"'));
    await images.podman('stop', '--time=30', name);
    const { stdout: exitCode } = await images.podman('inspect', '--format={{.State.ExitCode}}', name);
    expect(exitCode.trim()).toBe('0');
    expect(await log()).toContain('daemon.stopped');
  });

  it('is unhealthy without an answer, and has no check if http.listen is off', async () => {
    const [program = '', ...args] = await healthCheck(images);
    const check = async (listen: string): Promise<number | null> =>
      (await runOnce([`--entrypoint=${program}`, `--env=WORKBOOK_MIRROR_HTTP_LISTEN=${listen}`], ...args))
        .exitCode;
    expect(await check(`[::]:${await freePort()}`)).toBe(1);
    expect(await check('off')).toBe(0);
  });
});

/** The command of the image's health check. */
async function healthCheck({ podman, image }: Images): Promise<string[]> {
  const { stdout } = await podman('image', 'inspect', '--format={{json .HealthCheck.Test}}', image);
  const [kind, ...command] = JSON.parse(stdout) as string[];
  expect(kind).toBe('CMD');
  return command;
}
