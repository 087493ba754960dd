import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startCommands } from '../../../support/mirror-commands.ts';
import { buildZip } from '../../../support/zip-builder.ts';
import { runHere } from '../../../support/in-process.ts';
import { start, variablesOf } from '../../../support/program.ts';

/** A mirror in which a deletion is held, one target is quarantined, one drifted, and one was retired. */
async function troubledMirror(): Promise<Record<string, string>> {
  const { service, directory } = await startCommands();
  const names = Array.from({ length: 10 }, (_, index) => [`${index}.xlsx`, `a${index}`]);
  const held = service.addRepository('Held', Object.fromEntries(names) as Record<string, string>);
  const quarantined = service.addRepository('Quarantined', { 'b.xlsx': 'b' });
  const gone = service.addRepository('Gone', { 'c.xlsx': 'c' });
  service.addRepository('Drifted', { 'd.xlsx': 'd' });
  const settings = {
    ...service.settingsFor(directory),
    SCHEDULE: '0 0 1 1 *',
    GUARD_TARGETS: 'off',
    CONTENT: 'all',
  };
  expect((await runHere(['sync'], settings)).exitCode).toBe(0);
  service.removeRepository(gone);
  for (let passes = 0; passes < 2; passes += 1) await runHere(['sync'], settings);
  service.faultContents({ kind: 'body', body: buildZip([{ name: '../x', data: 'x' }]) }, quarantined);
  service.write(quarantined, 'main', 'b.xlsx', 'another version');
  for (let index = 0; index < 8; index += 1) service.remove(held, 'main', `${index}.xlsx`);
  await runHere(['sync'], settings);
  await writeFile(join(directory, 'mirror/Drifted/main/d.xlsx'), 'an edit');
  return settings;
}

/** Commands that show each state of a target, and each mistake with a name. */
const ASKED: readonly string[][] = [
  ['status'],
  ['plan'],
  ['verify'],
  ['history', 'list'],
  ['repos', 'list'],
  ['workbooks', 'list'],
  ...['Held/main', 'Quarantined/main', 'Drifted/main', 'Gone/main', 'Unknown/main'].flatMap((target) => [
    ['why', target],
    ['diff', target],
    ['diff', '--upstream', target],
    ['retry', target],
    ['approve', target],
    ['forget', target],
    ['history', 'list', target],
  ]),
  ['lease', 'release', '1'],
  ['stats'],
  ['poll', '--wait'],
  ['sync'],
];

/** The words of a command line in a shell, as far as the program's own quoting needs it. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|([^\s']+)/g)].map(([, quoted, bare = '']) => quoted ?? bare);
}

/** The commands that an output names: between backquotes, or to the end of the name that it acts on. */
function hintsIn(from: string, output: string) {
  const found = output.matchAll(/`workbook-mirror ([^`]+)`|workbook-mirror ((?:[a-z-]+ )+'[^'\n]+')/g);
  return [...found].map(([, quoted, bare = '']) => ({ from, words: wordsOf(quoted ?? bare) }));
}

/**
 * The hints that end as a refused command does.
 * @param runExitCode how `run` would end, which is not tried
 */
async function refusedHints(settings: Readonly<Record<string, string>>, runExitCode: number) {
  const hints = new Map<string, ReturnType<typeof hintsIn>[number]>();
  for (const args of ASKED) {
    const { stdout, stderr } = await runHere(args, settings);
    for (const hint of hintsIn(args.join(' '), stdout + stderr)) hints.set(hint.words.join(' '), hint);
  }
  expect(hints.size).toBeGreaterThan(5);
  const refused: string[] = [];
  for (const [line, { from, words }] of hints) {
    if (words.some((word) => /^[A-Z]+$/.test(word))) continue;
    const { exitCode, stderr } =
      words[0] === 'run' ? { exitCode: runExitCode, stderr: '' } : await runHere(words, settings);
    // Another process uses the directory, or the command line is wrong. As with diff(1), 2 says that the comparison failed: here the
    // archive of the quarantined target cannot be unpacked.
    if (exitCode === 4 || (exitCode === 2 && words[0] !== 'diff'))
      refused.push(`${from} names ${line}, which ends with ${exitCode}: ${stderr}`);
  }
  return refused;
}

describe('no hint names a command that is refused', () => {
  it('while no daemon runs', async () => {
    expect(await refusedHints(await troubledMirror(), 0)).toEqual([]);
  });

  it('while a daemon runs, and none asks to start one', async () => {
    const settings = await troubledMirror();
    const daemon = start(['run'], variablesOf(settings));
    await daemon.prints(/"pass\.finished"|looked at/);
    expect(await refusedHints(settings, 4)).toEqual([]);
  });
});
