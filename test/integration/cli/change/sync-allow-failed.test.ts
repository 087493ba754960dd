import { describe, expect, it } from 'vitest';

import type { Fault } from '../../../support/fake-service.ts';
import { buildZip } from '../../../support/zip-builder.ts';
import { startCommands } from '../../../support/mirror-commands.ts';
import { runHere, saying } from '../../../support/in-process.ts';
import { variablesOf, startDaemon } from '../../../support/program.ts';

/** A service with two repositories, and a directory in which nothing is mirrored yet. */
async function place() {
  const { service, directory } = await startCommands();
  for (const name of ['Good', 'Bad']) service.addRepository(name, { 'plan.xlsx': name });
  const settings: Record<string, string> = { ...service.settingsFor(directory), HTTP_LISTEN: 'off' };
  return { service, settings };
}

type Place = Awaited<ReturnType<typeof place>>;

/** Makes the service answer requests for the contents of one repository with a fault. */
const failBad =
  (fault: Fault) =>
  ({ service }: Place) =>
    service.faultContents(fault, service.named('Bad'));

/** States, each with the exit codes of `sync` and of `sync --allow-failed`. */
const STATES: readonly (readonly [string, (place: Place) => unknown, number, number])[] = [
  ['everything is verified', () => {}, 0, 0],
  [
    'a target is in quarantine',
    failBad({ kind: 'body', body: buildZip([{ name: '../x', data: 'x' }]) }),
    1,
    0,
  ],
  ['a target is refused to us', failBad({ kind: 'status', status: 403 }), 1, 0],
  [
    'the service still processes a target',
    ({ service }) => {
      for (const [, version] of service.repositories[1]?.branches.get('main')?.versions ?? [])
        version.status = 'processing';
    },
    1,
    0,
  ],
  [
    'the service asks for no requests for an hour',
    failBad({ kind: 'status', status: 429, headers: { 'retry-after': '3600' } }),
    1,
    1,
  ],
  ['the settings select nothing', ({ settings }) => (settings['REPOSITORIES_INCLUDE'] = 'None'), 1, 1],
  ['the settings are wrong', ({ settings }) => (settings['CONCURRENCY'] = 'many'), 2, 2],
  ['the key is refused', ({ settings }) => (settings['SERVICE_API_KEY'] = 'k7Qm2xV9pLr4TzB8wNc3'), 3, 3],
];

describe('sync --allow-failed', () => {
  it.each(STATES)('where %s', async (_title, arrange, plain, allowing) => {
    for (const [flags, exitCode] of [[[], plain] as const, [['--allow-failed'], allowing] as const]) {
      const here = await place();
      arrange(here);
      expect({ flags, exitCode: (await runHere(['sync', ...flags], here.settings)).exitCode }).toEqual({
        flags,
        exitCode,
      });
    }
  });

  it('ends with 0 if a deletion is held, and reports it, even if a daemon makes the pass', async () => {
    const { service, settings } = await place();
    await runHere(['sync'], settings);
    const gone = service.named();
    service.removeRepository(gone);
    await runHere(['sync'], settings);
    expect((await runHere(['sync'], settings)).exitCode).toBe(1);
    const allowed = await runHere(['sync', '--allow-failed'], settings);
    expect(allowed.exitCode).toBe(0);
    expect(allowed.stderr).toContain('1 held');

    await startDaemon(variablesOf(settings));
    const beside = await runHere(['sync', '--allow-failed'], { DIRECTORY: settings['DIRECTORY'] ?? '' });
    expect(beside).toMatchObject({ exitCode: 0, stderr: saying('A daemon runs here, so it makes the pass') });
  });
});
