import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, it } from 'vitest';

import { hasStrace } from '../support/strace.ts';
import { chosenCells, say, sweep } from '../support/sweep.ts';
import { errorsOf, killsOf, strikesOf } from './points.ts';
import { prepareAll, type Prepared } from './prepare.ts';
import { CELLS } from './scenarios.ts';

/** How much is tried in the run of all tests. */
const SAMPLE = { cells: 12, kills: 48, errors: 48 };

if (!hasStrace)
  say('attacks: strace is missing or may not trace here; the sweeps of kills and errors are skipped');

describe.skipIf(!hasStrace)('a program that is killed, or whose calls fail', () => {
  let folder = '';
  let prepared: readonly Prepared[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-attack-'));
    prepared = await prepareAll(chosenCells(CELLS, SAMPLE.cells), folder);
  });

  afterAll(async () => {
    for (const each of prepared) await each.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('leaves whole trees when it is killed before any call, and the next run completes them', async () => {
    await sweep('kills', strikesOf(prepared, killsOf, folder), SAMPLE.kills);
  });

  it('leaves whole trees when any call fails, says why, and the next run completes them', async () => {
    await sweep('errors', strikesOf(prepared, errorsOf, folder), SAMPLE.errors);
  });
});
