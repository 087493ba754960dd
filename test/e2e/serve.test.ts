import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { runWith, saying } from '../support/in-process.ts';
import { run, type Running, start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const LISTEN = { WORKBOOK_MIRROR_SERVE_LISTEN: '127.0.0.1:0' };

/** The settings of a mirror as a service prints them: every line of its output that has no time. */
function printedSettings(service: Running): string {
  return service
    .stderr()
    .split('\n')
    .filter((line) => !/^\d{4}-/.test(line))
    .join('\n');
}

/** The permissions of a folder and its contents beyond those of the owner; git removes write permission from objects. */
async function modesIn(folder: string): Promise<Set<string>> {
  const names = await readdir(folder, { recursive: true });
  const stats = await Promise.all(['', ...names].map((name) => stat(join(folder, name))));
  return new Set(stats.map(({ mode }) => ((mode & 0o777) | 0o600).toString(8)));
}

async function stop(service: Running): Promise<void> {
  expect(await service.stop()).toMatchObject({ exitCode: 0 });
}

describe('serve', () => {
  it('prints settings that a mirror accepts unchanged', async () => {
    const folder = await temporaryFolder();
    const service = start(['serve', '--samples', '--serve-directory', join(folder, 'service')], LISTEN);
    await service.prints(/^http:.*\/api$/m);
    const name = await readFile(`/proc/${service.child.pid}/comm`, 'utf8');
    expect(name).toBe('workbook-mirror\n');
    const settings = join(folder, 'mirror.yaml');
    await writeFile(settings, printedSettings(service));
    const synced = await run(['sync', '--config', settings], {}, folder);
    expect(synced).toMatchObject({ exitCode: 0 });
    expect(await readdir(join(folder, 'copy/mirror/Accounting'))).toContain('main');
    expect(service.stderr()).toMatch(/Listening on .*\n(?:.*\n)*?.*Serving 3 repositories/);
    expect(service.stderr()).toMatch(/Keys that last: workbook-mirror keys create --kind personal/);

    // A closed terminal or a SIGHUP by habit neither ends the service nor leaves anything behind.
    service.child.kill('SIGHUP');
    await service.prints(/SIGHUP changes nothing here/);
    await stop(service);
    expect(service.stderr()).toMatch(/Stopped\.\n$/);

    const again = start(['serve', '--samples', '--serve-directory', join(folder, 'service')], LISTEN);
    await again.prints(/^http:.*\/api$/m);
    expect(again.stderr()).toMatch(/! No samples were added/);
    await stop(again);
  });

  it('says that v1 is off without a token, has its directory alone, and respects -q and --log-format', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const key = { ...LISTEN, WORKBOOK_MIRROR_SERVE_API_KEY: 'key' };
    const service = start(['serve', '--serve-directory', directory], key);
    await service.prints(/^http:.*\/api$/m);
    expect(service.stderr()).toMatch(/! No token is set: v1 is off.*keys create --kind token/);
    const other = await run(['serve', '--serve-directory', directory], key);
    expect(other).toMatchObject({ exitCode: 4, stderr: saying(/serves .*\(pid \d+.*serve\.directory/s) });
    await stop(service);
    const quiet = start(['serve', '-q', '--serve-directory', directory], key);
    await quiet.prints(/^http:.*\/api$/m);
    await fetch(`${quiet.stdout().trim()}/repos?q=budget`);
    await stop(quiet);
    expect(quiet.stderr()).toBe('');
    const json = start(['serve', '--log-format', 'json', '--serve-directory', directory], key);
    await json.prints(/^http:.*\/api$/m);
    await fetch(`${json.stdout().trim()}/repos?q=budget`);
    await json.prints(/GET \/api\/repos 401 \d+ ms, from 127\.0\.0\.1/);
    await stop(json);
    for (const line of json.stderr().trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('msg');
  });

  it('refuses what cannot be its directory, and leaves it as it was', async () => {
    const folder = await temporaryFolder();
    const mirror = join(folder, 'mirror');
    await mkdir(join(mirror, 'manifests'), { recursive: true });
    await writeFile(join(folder, 'file'), '');
    const cases = [
      [`serve --serve-directory ${mirror}`, /is the directory of a mirror: it holds manifests/],
      [`serve --serve-directory ${folder}/file`, /a file is in the place of a folder/],
      [`serve --serve-directory ${folder}/file/x`, /a file is in the place of a folder/],
      [`keys create --kind token --name T --serve-directory ${mirror}`, /is the directory of a mirror/],
      [
        `serve --from-mirror --directory ${mirror}/manifests`,
        /is not a mirror.*holds mirror\/ and manifests/s,
      ],
      [`serve --from-mirror --directory ${folder}/file`, /is not a mirror/],
      [`serve --from-mirror --directory ${mirror} --serve-directory ${folder}/no`, /no is not a directory/],
      [`serve --from-mirror --samples --directory ${mirror}`, /--samples/],
      ['serve --from-mirror', /directory/],
    ] as const;
    for (const [line, message] of cases) {
      const ended = await runWith(line.split(' '), LISTEN);
      expect(ended.exitCode).toBe(2);
      expect(ended.stderr).toMatch(message);
    }
    expect(await readdir(mirror)).toEqual(['manifests']);
    expect(await readFile(join(folder, 'file'), 'utf8')).toBe('');
  });

  it('makes its files private to its user', async () => {
    const directory = join(await temporaryFolder(), 'new', 'service');
    const service = start(['serve', '--samples', '--serve-directory', directory], LISTEN);
    await service.prints(/^http:.*\/api$/m);
    await run(['keys', 'create', '--kind', 'token', '--name', 'T', '--serve-directory', directory]);
    expect(await modesIn(directory)).toEqual(new Set(['700', '600']));
    await stop(service);
  });
});
