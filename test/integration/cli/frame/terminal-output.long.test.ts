import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { hostileText, UNFIT } from '../../../support/hostile-text.ts';
import { runHere, type Written } from '../../../support/in-process.ts';
import { startCommands } from '../../../support/mirror-commands.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** The start of a line that a foreign name has begun. */
const FORGED = 'workbook-mirror: forged';

/** Names that also try to begin a line of their own. */
const hostileName = hostileText.map((text) => `x${text}\n${FORGED}\u2028${FORGED}\r${FORGED}`);

function expectText({ stdout, stderr }: Written, what: string): void {
  for (const text of [stdout, stderr]) {
    expect(text.replaceAll('\n', ''), what).not.toMatch(UNFIT);
    expect(
      text.split('\n').filter((line) => line.startsWith(FORGED)),
      what,
    ).toEqual([]);
  }
}

/** Runs commands in turn. @returns the output of each, which must be plain text */
async function runAll(settings: Readonly<Record<string, string>>, commands: readonly (readonly string[])[]) {
  const all: Written[] = [];
  for (const args of commands) {
    const written = await runHere(args, settings);
    expectText(written, args.join(' '));
    all.push(written);
  }
  return all;
}

/** A service, and the settings of its mirror; both end with the running test. */
async function startMirror() {
  const { service, directory } = await startCommands();
  const own = { GUARD_TARGETS: 'off', HTTP_LISTEN: 'off' };
  return { service, directory, settings: { ...service.settingsFor(directory), ...own } };
}

const STATUSES = [200, 302, 400, 403, 404, 409, 422, 500, 503] as const;

/** An answer as it is sent; its header fields are hostile, too (RFC 9110, section 5.5: obs-text). */
function answer(status: number, body: string): Buffer {
  const fields = [
    `HTTP/1.1 ${status} No\u009b2J`,
    'content-type: application/json\u009b2J',
    'location: http://127.0.0.1:1/\u009b2J',
    'server: \u009b2J\u0085',
    'retry-after: \u009b2J',
    'etag: "\u009b"',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  return Buffer.concat([Buffer.from(`${fields.join('\r\n')}\r\n\r\n`, 'latin1'), Buffer.from(body)]);
}

function jsonBody(value: unknown): { kind: 'body'; body: Buffer; headers: Record<string, string> } {
  return {
    kind: 'body',
    body: Buffer.from(JSON.stringify(value)),
    headers: { 'content-type': 'application/json' },
  };
}

describe('text of the service', () => {
  it('reaches a terminal only as text when it is listed', async () => {
    const { service, settings } = await startMirror();
    await fc.assert(
      fc.asyncProperty(hostileName, async (name) => {
        const row = { id: 'i', name, full_name: name, url: name, created_at: name };
        const version = { id: name, branch: name, author: name, message: name, created_at: name };
        const workbook = { id: name, name, integration: name, version };
        const page = { count: 1, next: null, previous: null, results: [workbook] };
        service.fault = (path) => jsonBody(path.includes('/workbooks') ? page : [row, { ...row, id: name }]);
        const [, repositories, , workbooks] = await runAll(settings, [
          ['repos', 'list'],
          ['repos', 'list', '--json'],
          ['workbooks', 'list'],
          ['workbooks', 'list', '--json'],
        ]);
        expect(JSON.parse(repositories?.stdout ?? '')).toMatchObject([{ fullName: name }]);
        expect(JSON.parse(workbooks?.stdout ?? '')).toMatchObject([{ id: name, author: name }]);
      }),
      { numRuns: 30 },
    );
  });

  it('reaches a terminal only as text in an error', async () => {
    const { service, settings } = await startMirror();
    await fc.assert(
      fc.asyncProperty(hostileName, fc.constantFrom(...STATUSES), async (name, status) => {
        const body = JSON.stringify({ error: name, detail: name, code: name, message: name });
        service.fault = () => ({ kind: 'raw', bytes: answer(status, body) });
        await runAll(settings, [
          ['repos', 'list'],
          ['workbooks', 'list'],
          ['repos', 'create', '--name', name],
          ['sync'],
          ['plan'],
          ['probe'],
        ]);
      }),
      { numRuns: 15 },
    );
  });

  it('reaches a terminal only as text once it is mirrored', async () => {
    await fc.assert(
      fc.asyncProperty(hostileName, async (name) => {
        const { service, directory, settings } = await startMirror();
        const repository = service.addRepository(`h/${name.toWellFormed()}`, { 'plan.xlsx': 'x' });
        service.addRepository('Plain', { 'plan.xlsx': 'x' });
        service.write(repository, name.replaceAll('/', ''), 'plan.xlsx', 'y');
        service.write(repository, 'main', '\u202e\u200b\u2066.xlsx', 'z');
        service.write(repository, 'main', `${name}.xlsx`, 'z');
        service.version(repository, 'main', 'plan.xlsx').failure = 1;
        const [, , , , listed] = await runAll(settings, [
          ['plan'],
          ['sync', '--verbose'],
          ['sync', '--json'],
          ['status'],
          ['status', '--json'],
        ]);
        const { targets } = JSON.parse(listed?.stdout ?? '') as { targets: { target: string }[] };
        const paths = targets.map(({ target }) => target);
        await mkdir(join(directory, 'mirror', '\u009b2J\n\u202e'), { recursive: true });
        await writeFile(join(directory, 'mirror/Plain/main', '\u009b\n\u2028'), '');
        await mkdir(join(directory, 'history/Plain', '\u202e\u009b'), { recursive: true });
        await runAll(settings, [
          ...paths.map((path) => ['why', path]),
          ...paths.map((path) => ['why', `${path}/plan.xlsx`]),
          ['why', name.replaceAll('\0', '')],
          ...paths.map((path) => ['diff', path]),
          ['diff', name.replaceAll('\0', ''), '--at', new Date().toISOString()],
          ['verify'],
          ['verify', '--json'],
          ['verify', '--repair'],
          ['approve', name.replaceAll('\0', '')],
          ['history', 'restore', name.replaceAll('\0', ''), '--at', name],
          ['history', 'restore', 'Plain/main', `no ${name.replaceAll('\0', '')}`, '--at', '2020-01-01'],
        ]);
        service.removeRepository(repository);
        await runAll(settings, [
          ['sync'],
          ['status'],
          ['history', 'list'],
          ['history', 'list', '--json'],
          ['history', 'list', name.replaceAll('\0', '')],
          ...paths.map((path) => ['history', 'restore', path, `no ${name.replaceAll('\0', '')}.xls`]),
          ['lease', 'acquire', '--for', '1h', '--holder', name],
          ['lease', 'list'],
          ['status'],
          ['sync'],
          ['lease', 'release', name],
        ]);
      }),
      { numRuns: 4 },
    );
  });
});

it('text of the command line and of the environment reaches a terminal only as text', async () => {
  const folder = await temporaryFolder();
  const config = join(folder, 'c\u202e\u009b.yaml');
  await writeFile(config, `"directory\\u009b": x\nschedule: "\\u202e"\n`);
  await fc.assert(
    fc.asyncProperty(hostileName, async (name) => {
      const variable = name.replaceAll('\0', '');
      await runAll({ TARGETS: variable, STATE: variable }, [['config', 'check', '--config', config]]);
      await runAll({}, [
        [name],
        [`--${name}`],
        ['sync', name],
        ['help', name],
        ['status', '--config', variable],
        ['status', '--directory', join(folder, variable)],
        ['config', 'show', '--targets', `a/${name}`],
        ['config', 'show', '--publish', name],
        ['serve', '--serve-directory', join('/nonexistent', variable)],
        ['keys', 'create', '--kind', 'personal', '--name', name, '--serve-directory', join(folder, 's')],
        ['keys', 'revoke', name, '--serve-directory', folder],
        ['keys', 'list', '--serve-directory', folder],
      ]);
    }),
    { numRuns: 15 },
  );
});

it.each([
  ['completion', 'bash'],
  ['completion', 'zsh'],
  ['completion', 'fish'],
  ['config', 'schema'],
  ['help', '--man'],
])('output for programs has nothing that needs escapes: %s %s', async (...args) => {
  const { stdout } = await runHere(args);
  expect(stdout.length).toBeGreaterThan(300);
  // The manual page contains the README's text on escapes.
  expect(stdout.replaceAll('\\eu009b', '')).not.toMatch(/\\e?u(?:[0-9a-f]{4}|\{)/);
});
